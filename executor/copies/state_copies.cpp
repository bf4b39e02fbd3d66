#include "executor/copies/state_copies.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/packing.h"
#include "executor/checkpoint/named_parts.h"

namespace tandem {
namespace {

/// At the end of a file: where its index is, and what that adds up to.
struct CopyTrailer {
  std::int64_t index_first = 0;
  std::uint64_t index_sum = 0;
};

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

std::map<std::string, std::size_t> stages_of_tensors(const ModelSpec& model,
                                                     const std::vector<LayerRange>& stages) {
  std::map<std::string, std::size_t> stage_of;
  for (const LayerTensor& each : tensors_of(model)) {
    const auto of = std::ranges::find_if(stages, [&](LayerRange range) {
      return range.first <= each.layer && each.layer < range.last;
    });
    stage_of[each.tensor.name] = static_cast<std::size_t>(of - stages.begin());
  }
  return stage_of;
}

StateCopies::StateCopies(std::string folder, CheckpointInfo info,
                         const std::vector<LayerRange>& stages, std::int64_t last,
                         std::int64_t keep, OnWhole on_whole)
    : folder_(std::move(folder)),
      info_(std::move(info)),
      last_(last),
      keep_(keep),
      on_whole_(std::move(on_whole)),
      stage_of_(stages_of_tensors(info_.model, stages)),
      stages_(stages.size()) {}

void StateCopies::keep(const ShownPlane<float>& shown) {
  const std::size_t stage = stage_of_.at(shown.tensor.name);
  OfStage& of = stages_[stage];
  if (!of.copies) of.copies.emplace(folder_, stage, info_.batches, keep_);
  of.index += Packer().add_text(shown.tensor.name).add(shown.plane).add(of.copies->size()).take();
  of.copies->append(bytes_of(shown.values));
}

void StateCopies::end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                            std::int64_t steps) {
  if (tensors.empty()) return;  // of a stage that is a loss alone
  OfStage& of = stages_[stage_of_.at(tensors.front().name)];
  CheckpointInfo info = info_;
  info.batches = batches;
  info.samples += (batches - info_.batches) * info.samples_a_batch;
  info.steps.assign(layers_of(info.model).size(), 0);  // of tensors, beside it
  Packer packer;
  packer.add_text(manifest_text({.info = info, .bytes = {}, .sums = {}}));
  packer.add(steps).add_text(std::exchange(of.index, {}));
  const std::string index = packer.take();
  const CopyTrailer trailer{of.copies->size(), checksum(index)};
  of.copies->append(index);
  of.copies->append({reinterpret_cast<const char*>(&trailer), sizeof(trailer)});
  const StageCopy copy = of.copies->finish(batches);
  if (on_whole_) on_whole_(copy);
}

std::unique_ptr<CopiedState> CopiedState::after(std::int64_t batches, const std::string& folder,
                                                const std::vector<KeptTensor>& kept) {
  auto state = std::make_unique<CopiedState>();
  for (const StageCopy& copy : copies_in(folder)) {
    if (copy.batches == batches) state->add(copy.path);
  }
  return state->has(kept) ? std::move(state) : nullptr;
}

bool CopiedState::is_readable(const std::string& path) { return CopiedState().add(path); }

bool CopiedState::add(const std::string& path) {
  try {
    const std::string_view all = files_.emplace_back(path).bytes();
    CopyTrailer trailer;
    if (all.size() < sizeof(trailer)) return false;
    const std::string_view rest = all.substr(0, all.size() - sizeof(trailer));
    std::memcpy(&trailer, all.data() + rest.size(), sizeof(trailer));
    if (trailer.index_first < 0 || trailer.index_first > std::ssize(rest)) return false;
    const auto first = static_cast<std::size_t>(trailer.index_first);
    const std::string_view values = rest.substr(0, first), index = rest.substr(first);
    if (checksum(index) != trailer.index_sum) return false;
    Unpacker of(index);
    info_ = parse_manifest(path, std::string(of.text())).info;
    const auto steps = of.get<std::int64_t>();
    std::string_view* last = nullptr;  // each plane ends where the next one begins
    for (Unpacker planes(of.text()); !planes.empty();) {
      const std::string name(planes.text());
      const auto plane = planes.get<Plane>();
      const auto begin = static_cast<std::size_t>(planes.get<std::int64_t>());
      if (last != nullptr)
        *last = last->substr(0, static_cast<std::size_t>(values.data() + begin - last->data()));
      last = &(planes_[{plane, name}] = values.substr(begin));
      steps_[name] = steps;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool CopiedState::has(const std::vector<KeptTensor>& kept) const {
  return std::ranges::all_of(kept, [this](const KeptTensor& each) {
    return std::ranges::all_of(each.planes, [&](Plane plane) {
      const auto found = planes_.find({plane, each.tensor.name});
      constexpr std::int64_t kNumber = sizeof(float);
      return found != planes_.end() && std::ssize(found->second) == each.tensor.size() * kNumber;
    });
  });
}

bool CopiedState::read(Plane plane, const Tensor& tensor, std::span<float> values) const {
  const auto found = planes_.find({plane, tensor.name});
  if (found == planes_.end() || found->second.size() != values.size_bytes()) return false;
  std::memcpy(values.data(), found->second.data(), values.size_bytes());
  return true;
}

bool StateKeepers::wants(std::int64_t batches) {
  bool wanted = false;
  for (StateKeeper<float>* keeper : keepers_) wanted = keeper->wants(batches) || wanted;
  return wanted;
}

void StateKeepers::keep(const ShownPlane<float>& shown) {
  for (StateKeeper<float>* keeper : keepers_) {
    if (keeper->wants(shown.batches)) keeper->keep(shown);
  }
}

void StateKeepers::end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                             std::int64_t steps) {
  for (StateKeeper<float>* keeper : keepers_) {
    if (keeper->wants(batches)) keeper->end_stage(batches, tensors, steps);
  }
}

}  // namespace tandem
