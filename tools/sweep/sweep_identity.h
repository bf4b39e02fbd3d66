#pragma once
// What tells one sweep's rows from another's, and what one of its configurations is.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tandem::tools {

inline constexpr std::size_t kMostConfigurations = 1'000'000;  // of a sweep

struct SweepIdentity {
  std::string id;  // of its options, the files they name, and this build
  std::size_t configurations = 0;
  std::vector<std::string> axes;  // options of several values
  friend bool operator==(const SweepIdentity&, const SweepIdentity&) = default;
};

/// An option of a configuration as it was given.
struct SweptOption {
  std::string name;                  // "plan": of what is no option
  std::optional<std::string> value;  // empty: a flag
  bool on = true;                    // of a flag
};
using Configuration = std::vector<SweptOption>;

}  // namespace tandem::tools
