#pragma once
// Devices and links that are not what they should be: slower by a known factor.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/program/cost.h"
#include "simulator/analysis/resource.h"

namespace tandem {

enum class PerturbationKind : std::uint8_t {
  slow_device,    // at `factor` times its speed
  straggler,      // what it computes takes `factor` times as long
  degraded_link,  // at `factor` times its rate, both ways
};

struct PerturbationTraits {
  PerturbationKind kind;
  std::string_view flag;  // on the command line
  std::string_view key;   // in JSON
  bool of_time = false;   // factors of the time, at least 1; else of a speed or a rate, at most 1
};
inline constexpr std::array<PerturbationTraits, 3> kPerturbations{{
    {PerturbationKind::slow_device, "slow-device", "slow_device"},
    {PerturbationKind::straggler, "straggler", "straggler", true},
    {PerturbationKind::degraded_link, "degraded-link", "degraded_link"},
}};
const PerturbationTraits& traits(PerturbationKind kind);

struct Perturbation {
  PerturbationKind kind{};
  Resource resource{};  // a device of a pipeline, in all pipelines, or a link between two
  double factor = 1.0;
};

/// "3:0.8", "2-3:0.5".
std::string text_of(const Perturbation& perturbation);

/// The prices with all of them. Orders that were searched by prices stay as they are. Throws
/// UsageError for a device that the program has not, InputError for a link that nothing is sent
/// over.
CostTable perturbed(const Program& program, CostTable costs,
                    const std::vector<Perturbation>& perturbations);

}  // namespace tandem
