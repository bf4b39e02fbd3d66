#pragma once
// StateCopies: what lasts of a run after each of its newest batches, in files of a memory file
// system: they outlive the run's processes, and whoever is started in their place goes on from
// them. Each stage has files of its own, written by the rank that has the stage, so that nobody
// waits for another.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/text/descriptor.h"
#include "core/text/mapped_file.h"
#include "executor/checkpoint/checkpoint_info.h"
#include "executor/checkpoint/kept_tensors.h"

namespace tandem {

/// Batches of which each stage keeps a copy. What another stage may be behind by is the ramp: one
/// batch has copies of all stages then, and one more is being written.
inline std::int64_t copies_kept(std::int64_t ramp) { return ramp + 3; }

/// Writes them. Every failure throws DeviceError.
class StateCopies final : public StateKeeper<float> {
 public:
  /// `info`: of the run, at its start; `stages`: their layers. Of batch `last` there are none: what
  /// lasts then is the run's result.
  StateCopies(std::string folder, CheckpointInfo info, const std::vector<LayerRange>& stages,
              std::int64_t last, std::int64_t keep);

  bool wants(std::int64_t batches) override { return batches < last_; }
  void keep(const ShownPlane<float>& shown) override;
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override;

 private:
  struct Whole {
    std::string path;
    bool ours = false;  // else others may still read it: it is never written over
  };
  /// A stage's, touched by one thread at a time.
  struct OfStage {
    bool begun = false;
    std::deque<Whole> whole = {};  // ascending
    Descriptor file;               // of the copy that is being written
    std::int64_t bytes = 0;        // of it so far
    std::string index = {};        // packed: where its planes are
  };

  std::string half_written(std::size_t stage) const;
  /// Finds what an earlier start has left: what is not of this run's past goes.
  void begin(std::size_t stage);
  void open(std::size_t stage);
  void append(std::size_t stage, std::string_view bytes);

  const std::string folder_;
  const CheckpointInfo info_;
  const std::int64_t last_, keep_;
  std::map<std::string, std::size_t> stage_of_;  // by tensor
  std::vector<OfStage> stages_;
};

/// A state that was copied so. Immutable: may be shared by threads, and stays while its files go.
class CopiedState final : public TrainingStart<float> {
 public:
  /// The newest in `folder` that has all of `kept`; null: there is none.
  static std::unique_ptr<CopiedState> newest(const std::string& folder,
                                             const std::vector<KeptTensor>& kept);

  const CheckpointInfo& info() const { return info_; }
  std::int64_t batches() const override { return info_.batches; }
  std::int64_t steps(const Tensor& tensor) const override { return steps_.at(tensor.name); }
  bool read(Plane plane, const Tensor& tensor, std::span<float> values) const override;

 private:
  /// A stage's file; false: it is not as it was written.
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
