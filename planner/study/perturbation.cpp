#include "planner/study/perturbation.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

void check_devices(const Program& program, const Perturbation& one) {
  const std::uint16_t devices = program.placement().devices;
  const DeviceId last = std::max(one.resource.device, one.resource.peer);
  if (index(last) < devices) return;
  throw UsageError(
      fmt::format("--{}: there is no device {}: a pipeline has {}, numbered from 0; each stands "
                  "for its replicas in all pipelines",
                  traits(one.kind).flag, index(last), devices));
}

}  // namespace

const PerturbationTraits& traits(PerturbationKind kind) {
  return *std::ranges::find(kPerturbations, kind, &PerturbationTraits::kind);
}

std::string text_of(const Perturbation& one) {
  const Resource& whom = one.resource;
  if (whom.kind == Resource::Kind::link)
    return fmt::format("{}-{}:{}", index(whom.device), index(whom.peer), one.factor);
  return fmt::format("{}:{}", index(whom.device), one.factor);
}

CostTable perturbed(const Program& program, CostTable costs,
                    const std::vector<Perturbation>& perturbations) {
  for (const Perturbation& one : perturbations) {
    check_devices(program, one);
    const auto is_of = [&](const CostKey& key) { return uses(one.resource, key); };
    if (one.resource.kind == Resource::Kind::link &&
        std::ranges::none_of(program.cost_keys(), is_of)) {
      throw InputError(
          fmt::format("{1} sends nothing over {0}", name(one.resource), program.schedule()));
    }
    costs = scaled(program, costs, one.resource,
                   traits(one.kind).of_time ? one.factor : 1.0 / one.factor);
  }
  return costs;
}

}  // namespace tandem
