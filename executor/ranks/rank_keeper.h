#pragma once
// RankKeeper: what keeps the state of a run over several ranks. The first rank has the keeper; the
// others bring it what their devices show, over the group's connections.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/ranks/rank_run.h"
#include "executor/stage/plane.h"

namespace tandem {

/// Of ranks other than the first.
class RankKeeper final : public StateKeeper<float> {
 public:
  /// The state is wanted after each `every` batches (0: never) and after the `last`. The run
  /// outlives this.
  RankKeeper(RankRun& run, std::int64_t every, std::int64_t last);
  ~RankKeeper() override;

  /// Asks the first rank. Throws DeviceError where the run has failed.
  bool wants(std::int64_t batches) override;
  void keep(const ShownPlane<float>& shown) override;
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override;

 private:
  void hear(MessageKind kind, const std::string& message);

  RankRun& run_;
  const std::int64_t every_, last_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, bool> answers_;  // by batches
  std::int64_t asked_ = -1;
};

/// Of the first rank: hands a keeper what the others bring, on a thread of its own, for keepers
/// wait.
class RankKeeperService {
 public:
  RankKeeperService(RankRun& run, StateKeeper<float>& keeper);
  ~RankKeeperService();
  RankKeeperService(const RankKeeperService&) = delete;
  RankKeeperService& operator=(const RankKeeperService&) = delete;

  /// Returns when all that was brought is kept.
  void finish();

 private:
  void work(const std::stop_token& stop);
  void serve(std::int32_t from, MessageKind kind, const std::string& message);

  struct Brought {
    std::int32_t from;
    MessageKind kind;
    std::string message;
  };
  RankRun& run_;
  StateKeeper<float>& keeper_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Brought> brought_;
  bool works_ = false;
  std::vector<std::future<void>> asked_;  // of the thread: each waits for an answer
  std::jthread thread_;
};

}  // namespace tandem
