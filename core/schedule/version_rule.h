#pragma once
// VersionRule: which version of its stage's weights a forward reads, and which its backward.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

/// Of a whole schedule. How old a version is, an op's staleness says; verify() asks whether it is
/// the one that the rule names.
enum class VersionRule : std::uint8_t {
  same,      // both passes of a microbatch read one version
  newest,    // each pass reads the newest that there is when it runs (PACI)
  vertical,  // a forward reads, on every stage, the version that was the newest on stage 0 as its
             // microbatch entered; a backward reads the newest (TiMePReSt)
};

/// Behind "reads" in a schedule's notation.
inline constexpr std::array<std::string_view, 3> kVersionRules{"same", "newest", "vertical"};

/// One of these.
constexpr std::string_view name(VersionRule rule) {
  return kVersionRules[static_cast<std::size_t>(rule)];
}

/// Whether both passes of a microbatch may read different versions, of which none is kept for it.
constexpr bool mixes_versions(VersionRule rule) { return rule != VersionRule::same; }

}  // namespace tandem
