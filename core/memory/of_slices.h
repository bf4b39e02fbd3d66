#pragma once
// OfSlices: what a stage takes of each slice of a microbatch, which are of different lengths.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/table.h"

namespace tandem {

/// A value for each replica and slice. INVARIANT: a replica has one that holds for all slices, or
/// one for each of them.
template <class T>
class OfSlices {
 public:
  OfSlices() = default;
  /// Whatever the slice, or where there is but one.
  OfSlices(const Table<ReplicaId, T>& alike) {  // NOLINT(google-explicit-constructor)
    for (const T& one : alike) rows_.push_back({one});
  }
  void push_back(std::vector<T> of_replica) { rows_.push_back(std::move(of_replica)); }

  std::size_t replicas() const { return rows_.size(); }
  const T& operator()(ReplicaId replica, std::int64_t slice) const {
    const std::vector<T>& row = rows_[replica];
    return row[row.size() == 1 ? 0 : static_cast<std::size_t>(slice)];
  }

 private:
  Table<ReplicaId, std::vector<T>> rows_;
};

}  // namespace tandem
