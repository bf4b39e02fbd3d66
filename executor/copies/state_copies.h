#pragma once
// StateCopies: what lasts of a run after each of its newest batches, in files of a memory file
// system: they outlive the run's processes, and whoever is started in their place goes on from
// them. Each stage has files of its own, written by the rank that has the stage, so that nobody
// waits for another.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/text/mapped_file.h"
#include "executor/checkpoint/checkpoint_info.h"
#include "executor/checkpoint/kept_tensors.h"
#include "executor/copies/stage_copies.h"

namespace tandem {

/// Batches of which each stage keeps a copy. What another stage may be behind by is the ramp: one
/// batch has copies of all stages then, and one more is being written.
inline std::int64_t copies_kept(std::int64_t ramp) { return ramp + 3; }

/// The stage of each tensor of the model, by its name. `stages`: their layers.
std::map<std::string, std::size_t> stages_of_tensors(const ModelSpec& model,
                                                     const std::vector<LayerRange>& stages);

/// Writes them. Every failure throws DeviceError.
class StateCopies final : public StateKeeper<float> {
 public:
  /// Told of each copy that is whole, by the thread that has shown the stage.
  using OnWhole = std::function<void(const StageCopy&)>;

  /// `info`: of the run, at its start; `stages`: their layers. Of batch `last` there are none: what
  /// lasts then is the run's result.
  StateCopies(std::string folder, CheckpointInfo info, const std::vector<LayerRange>& stages,
              std::int64_t last, std::int64_t keep, OnWhole on_whole = {});

  bool wants(std::int64_t batches) override { return batches < last_; }
  void keep(const ShownPlane<float>& shown) override;
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override;

 private:
  /// A stage's, touched by one thread at a time; none of a stage that another rank has.
  struct OfStage {
    std::optional<StageCopies> copies = {};
    std::string index = {};  // packed: where the planes are of the one that is being written
  };

  const std::string folder_;
  const CheckpointInfo info_;
  const std::int64_t last_, keep_;
  const OnWhole on_whole_;
  const std::map<std::string, std::size_t> stage_of_;
  std::vector<OfStage> stages_;
};

/// A state that was copied so. Immutable: may be shared by threads, and stays while its files go.
class CopiedState final : public TrainingStart<float> {
 public:
  /// That in `folder` after so many batches; null: it lacks some of `kept`.
  static std::unique_ptr<CopiedState> after(std::int64_t batches, const std::string& folder,
                                            const std::vector<KeptTensor>& kept);
  /// Whether the file is as it was written, as far as its own index tells.
  static bool is_readable(const std::string& path);

  const CheckpointInfo& info() const { return info_; }
  std::int64_t batches() const override { return info_.batches; }
  std::int64_t steps(const Tensor& tensor) const override { return steps_.at(tensor.name); }
  bool read(Plane plane, const Tensor& tensor, std::span<float> values) const override;

 private:
  /// A stage's file; false, and nothing is added: it is not as it was written.
  bool add(const std::string& path);
  bool has(const std::vector<KeptTensor>& kept) const;

  CheckpointInfo info_;
  std::vector<MappedFile> files_;
  std::map<std::pair<Plane, std::string>, std::string_view> planes_;
  std::map<std::string, std::int64_t> steps_;
};

/// Shows the same to two keepers, as each wants it; the second may be null.
class StateKeepers final : public StateKeeper<float> {
 public:
  StateKeepers(StateKeeper<float>* first, StateKeeper<float>* second) : keepers_{first} {
    if (second != nullptr) keepers_.push_back(second);
  }

  bool wants(std::int64_t batches) override;
  void keep(const ShownPlane<float>& shown) override;
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override;

 private:
  std::vector<StateKeeper<float>*> keepers_;
};

}  // namespace tandem
