#pragma once
// Configurations of a sweep that are one plan: what differs between their options changes nothing.

#include <cstddef>
#include <string>
#include <vector>

#include "tools/sweep/sweep_row.h"

namespace tandem::tools {

class SweepTwins {
 public:
  /// Refers to `rows`.
  explicit SweepTwins(const std::vector<SweepRow>& rows);

  /// The place of the first configuration that is the plan of the row at `place`.
  std::size_t first(std::size_t place) const { return first_[place]; }
  bool is_first(std::size_t place) const { return first_[place] == place; }
  /// Rows that are not the first.
  std::size_t folded() const { return folded_; }
  /// What an axis has in all that are the plan of a first one: "none = selective".
  std::string values(std::size_t place, std::size_t axis) const;

 private:
  const std::vector<SweepRow>& rows_;
  std::vector<std::size_t> first_;
  std::vector<std::vector<std::size_t>> others_;  // of each first one, by index
  std::size_t folded_ = 0;
};

}  // namespace tandem::tools
