#pragma once
// Table<Id, T>: a vector indexed by its own id type, so that a stage can't index a table of
// devices. ids(table) are its ids in order: for (const DeviceId device : ids(result.devices)).

#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace tandem {

/// REQUIRES, of each access: the id names a row (not checked, as of a vector).
template <StrongId Id, class T>
class Table {
 public:
  Table() = default;
  explicit Table(std::size_t size, const T& value = T{}) : rows_(size, value) {}
  Table(std::initializer_list<T> rows) : rows_(rows) {}

  T& operator[](Id id) { return rows_[index(id)]; }
  const T& operator[](Id id) const { return rows_[index(id)]; }

  std::size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  void resize(std::size_t size) { rows_.resize(size); }
  void reserve(std::size_t size) { rows_.reserve(size); }
  /// The new row's id.
  Id push_back(T row) {
    rows_.push_back(std::move(row));
    return id_at<Id>(rows_.size() - 1);
  }

  auto begin() { return rows_.begin(); }
  auto end() { return rows_.end(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  const std::vector<T>& rows() const { return rows_; }

  friend bool operator==(const Table&, const Table&) = default;

 private:
  std::vector<T> rows_;
};

/// All ids of a table of `size` rows, in order: for (StageId stage : all_ids<StageId>(n)).
template <StrongId Id>
class IdRange {
 public:
  class Iterator {
   public:
    explicit Iterator(std::size_t position) : position_(position) {}
    Id operator*() const { return id_at<Id>(position_); }
    Iterator& operator++() {
      ++position_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return position_ != other.position_; }

   private:
    std::size_t position_;
  };
  explicit IdRange(std::size_t size) : size_(size) {}
  Iterator begin() const { return Iterator(0); }
  Iterator end() const { return Iterator(size_); }

 private:
  std::size_t size_;
};

/// The first `size` ids, ascending.
template <StrongId Id>
IdRange<Id> all_ids(std::size_t size) {
  return IdRange<Id>(size);
}

/// The ids of a table's rows, ascending.
template <StrongId Id, class T>
IdRange<Id> ids(const Table<Id, T>& table) {
  return IdRange<Id>(table.size());
}

}  // namespace tandem
