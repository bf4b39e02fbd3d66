#pragma once
// What a sweep asks: every combination of the values that are given for simulate's options.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/study/sweep.h"
#include "tools/options/given_options.h"
#include "tools/sweep/sweep_row.h"

namespace tandem::tools {

/// The values of one option in a product: `a,b,c`; or `a,b;c` where they have commas themselves,
/// cut at semicolons, of which a last one may end the list. `1..4`, `2..8+2` and `1..64*2` stand
/// for the numbers that they count, each with its unit where there is one: `1ms..8ms*2`. Throws
/// UsageError.
std::vector<std::string> values_of_list(const std::string& option, const std::string& text);

struct SweepAxis {
  std::string name;  // of an option; "plan": of what is no option
  std::vector<std::string> values;
  bool flag = false;                   // its values are yes and no
  std::vector<Setting> settings = {};  // what each value says; throws UsageError where it is none
};

class SweepSpace {
 public:
  /// The product over all options given that may have several values, in their order: the last one
  /// changes fastest. An option that some of the schedules don't have is left out for
  /// these, which then stand once. Several schedules at plain costs have those of a device. Throws
  /// UsageError.
  explicit SweepSpace(const Options& options);

  const SweepIdentity& identity() const { return identity_; }
  std::size_t size() const { return positions_.size(); }

  /// The options of a configuration as they were given, by their names; flags true or false.
  Json configuration(std::size_t index) const;
  /// What these ask of a simulation. Throws what simulate does.
  SweepRun run(std::size_t index) const;

 private:
  void read_axes(const Options& options);
  void add_axis(const std::string& name, std::vector<std::string> values, bool flag);
  void take_device_costs();
  void find_what_applies();
  void enumerate();
  std::string make_id(const Options& options) const;
  const SweepAxis* axis(const std::string& name) const;
  /// Which value each axis has at a position of the whole product.
  std::vector<std::size_t> digits(std::size_t position) const;
  /// Whether an axis is an option of the schedule at these digits.
  bool applies(std::size_t axis, const std::vector<std::size_t>& digits) const;

  std::vector<SweepAxis> axes_;             // of one value, too
  std::size_t schedules_ = 0;               // the axis "schedule", if there is one
  std::vector<std::vector<bool>> applies_;  // of each axis, to each schedule; empty: to all
  std::vector<std::uint32_t> positions_;    // of the product, of each configuration
  SweepIdentity identity_;
};

}  // namespace tandem::tools
