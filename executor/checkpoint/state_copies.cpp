#include "executor/checkpoint/state_copies.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/base/packing.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/named_parts.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// At the end of a file: where its index is, and what that adds up to.
struct CopyTrailer {
  std::int64_t index_first = 0;
  std::uint64_t index_sum = 0;
};

/// "stage-3." and the name of a checkpoint.
std::string prefix_of(std::size_t stage) { return fmt::format("stage-{}.", stage); }

/// The number behind "stage-3.step-", or nothing.
std::optional<std::int64_t> batches_of(const std::string& name) {
  const std::size_t digits = name.rfind('-');
  if (!name.starts_with("stage-") || digits == std::string::npos) return std::nullopt;
  return number_in<std::int64_t>(std::string_view(name).substr(digits + 1));
}

/// Names of all that is whole there, by the batches that had ended.
std::map<std::int64_t, std::vector<std::string>> copies_in(const std::string& folder) {
  std::map<std::int64_t, std::vector<std::string>> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (const auto batches = batches_of(name)) found[*batches].push_back(name);
  }
  return found;
}

std::string_view bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

StateCopies::StateCopies(std::string folder, CheckpointInfo info,
                         const std::vector<LayerRange>& stages, std::int64_t last,
                         std::int64_t keep)
    : folder_(std::move(folder)), info_(std::move(info)), last_(last), keep_(keep) {
  for (const LayerTensor& each : tensors_of(info_.model)) {
    const auto of = std::ranges::find_if(stages, [&](LayerRange range) {
      return range.first <= each.layer && each.layer < range.last;
    });
    stage_of_[each.tensor.name] = static_cast<std::size_t>(of - stages.begin());
  }
  stages_.resize(stages.size());
}

std::string StateCopies::half_written(std::size_t stage) const {
  return (fs::path(folder_) / ("." + prefix_of(stage) + "half-written")).string();
}

void StateCopies::begin(std::size_t stage) {
  std::error_code ignored;
  fs::remove(half_written(stage), ignored);
  for (const auto& [batches, names] : copies_in(folder_)) {
    for (const std::string& name : names) {
      if (!name.starts_with(prefix_of(stage))) continue;
      const std::string path = (fs::path(folder_) / name).string();
      if (batches > info_.batches)
        fs::remove(path, ignored);
      else
        stages_[stage].whole.push_back({path, false});
    }
  }
  stages_[stage].begun = true;
}

void StateCopies::open(std::size_t stage) {
  OfStage& of = stages_[stage];
  if (!of.begun) begin(stage);
  const std::string path = half_written(stage);
  // Memory that is there is written over: none must be found, nor cleared.
  while (std::ssize(of.whole) >= keep_) {
    const Whole oldest = of.whole.front();
    of.whole.pop_front();
    std::error_code error;
    oldest.ours ? fs::rename(oldest.path, path, error) : (void)fs::remove(oldest.path, error);
  }
  of.file = Descriptor(open_file(path, O_RDWR | O_CREAT, 0600));
  if (!of.file.valid()) fail_writing(path, errno);
  of.bytes = 0;
  of.index.clear();
}

void StateCopies::append(std::size_t stage, std::string_view bytes) {
  OfStage& of = stages_[stage];
  if (const int error = write_all(of.file.value(), bytes); error != 0)
    fail_writing(half_written(stage), error);
  of.bytes += std::ssize(bytes);
}

void StateCopies::keep(const ShownPlane<float>& shown) {
  const std::size_t stage = stage_of_.at(shown.tensor.name);
  OfStage& of = stages_[stage];
  if (!of.file.valid()) open(stage);
  of.index += Packer().add_text(shown.tensor.name).add(shown.plane).add(of.bytes).take();
  append(stage, bytes_of(shown.values));
}

void StateCopies::end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                            std::int64_t steps) {
  if (tensors.empty()) return;  // of a stage that is a loss alone
  const std::size_t stage = stage_of_.at(tensors.front().name);
  OfStage& of = stages_[stage];
  CheckpointInfo info = info_;
  info.batches = batches;
  info.samples += (batches - info_.batches) * info.samples_a_batch;
  info.steps.assign(layers_of(info.model).size(), 0);  // of tensors, beside it
  Packer packer;
  packer.add_text(manifest_text({.info = info, .bytes = {}, .sums = {}}));
  packer.add(steps).add_text(of.index);
  const std::string index = packer.take();
  const CopyTrailer trailer{of.bytes, checksum(index)};
  append(stage, index);
  append(stage, {reinterpret_cast<const char*>(&trailer), sizeof(trailer)});
  const fs::path path = fs::path(folder_) / (prefix_of(stage) + checkpoint_name(batches));
  if (::ftruncate(of.file.value(), of.bytes) != 0 ||
      std::rename(half_written(stage).c_str(), path.c_str()) != 0)
    fail_writing(path.string(), errno);
  of.file = Descriptor();
  of.whole.push_back({path.string(), true});
}

std::unique_ptr<CopiedState> CopiedState::newest(const std::string& folder,
                                                 const std::vector<KeptTensor>& kept) {
  const auto found = copies_in(folder);
  for (auto each = found.rbegin(); each != found.rend(); ++each) {
    auto state = std::make_unique<CopiedState>();
    const bool whole = std::ranges::all_of(each->second, [&](const std::string& name) {
      return state->add((fs::path(folder) / name).string());
    });
    if (whole && state->has(kept)) return state;
  }
  return nullptr;
}

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
