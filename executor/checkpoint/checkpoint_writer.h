#pragma once
// CheckpointWriter: writes a run's checkpoints while it goes on. The run's threads copy what lasts
// into an image, each stage when its batch's last update is made; a thread of the writer's brings
// the image to the disk. One at a time: a checkpoint that is due while another is still being
// written is left out, with a notice.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "executor/backend/notice.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_image.h"
#include "executor/checkpoint/checkpoint_info.h"

namespace tandem {

struct CheckpointOptions {
  std::string folder;
  std::int64_t every = 0;        // batches; 0: at the end of the run alone
  std::int64_t keep = 2;         // newest ones; 0: all
  bool stop_on_failure = false;  // else a checkpoint that can't be written is told of, and left out
  Notice on_notice = {};
  std::vector<KeptFile> files = {};  // beside the model: its tokenizer
};

class CheckpointWriter final : public StateKeeper<float> {
 public:
  /// `info`: of the run, at its start. `last`: the batch that it ends behind. Throws as
  /// CheckpointFolder does.
  CheckpointWriter(CheckpointOptions options, CheckpointInfo info, std::int64_t last,
                   const std::vector<KeptTensor>& tensors);
  ~CheckpointWriter() override;

  /// What it holds while it lives.
  std::uint64_t bytes() const { return image_.bytes(); }

  // Of devices' threads. At the end of the run wants() waits for the checkpoint before it. Throws
  // DeviceError where one has failed, and that is to stop the run.
  bool wants(std::int64_t batches) override;
  void keep(const ShownPlane<float>& shown) override;
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override;

  /// Waits for what is being written. Returns where the newest one is; empty: none was written.
  /// Throws DeviceError where the last one of the run could not be written.
  std::string finish();

 private:
  enum class State : std::uint8_t { idle, filling, writing };

  /// Throws DeviceError of a failure that ends the run. REQUIRES: the mutex is held.
  void check_failure() const;
  void work();
  void write(const CheckpointInfo& info);
  CheckpointInfo info_now() const;

  const CheckpointOptions options_;
  const CheckpointInfo start_;
  const std::int64_t last_;
  CheckpointImage image_;
  const std::size_t tensors_;  // of the model
  CheckpointFolder folder_;

  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  std::int64_t batches_ = -1;                  // of the image
  std::map<std::string, std::int64_t> steps_;  // by tensor, of stages that have ended
  std::int64_t decided_ = -1;  // the newest that wants() has been asked of, where it is due
  bool decides_ = false;       // on that
  std::int64_t written_ = -1;
  std::optional<std::string> failure_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace tandem
