#pragma once
// RankRun: the other ranks as a training run sees them, over a group of processes and an engine.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "executor/backend/notice.h"
#include "executor/ranks/message_engine.h"
#include "executor/ranks/rank_group.h"
#include "executor/run/other_ranks.h"

namespace tandem {

class RankRun final : public OtherRanks {
 public:
  /// Connects the channels. All ranks make theirs at once. `on_stuck` is told why the process ends,
  /// where a failed run does not end by itself. The group outlives this.
  RankRun(RankGroup& group, CommunicatorPlans plans, DeviceRanks rank_of, Notice on_stuck = {});
  ~RankRun() override;

  /// Whom messages about the state that lasts go to: the two below are what they are sent by.
  using StateEars = std::function<void(std::int32_t from, MessageKind, const std::string&)>;
  void listen_for_state(StateEars ears);
  void tell_first(MessageKind kind, std::string message);
  void tell_first_long(MessageKind kind, std::string message);
  void tell(std::int32_t rank, MessageKind kind, std::string message);
  /// No answer will come.
  bool has_ended() const { return ended_early_; }

  std::int32_t rank() const override { return group_.rank(); }
  std::int32_t rank_of(DeviceId device) const override { return rank_of_[device]; }
  const CommunicatorPlans& plans() const override { return plans_; }

  void send(std::size_t communicator, std::span<const std::byte> bytes,
            std::function<void()> ended) override;
  void receive(std::size_t communicator, std::span<std::byte> into,
               std::function<void(Time)> ended) override;
  void sum(std::size_t communicator, const std::vector<std::int32_t>& members,
           std::vector<std::span<float>> shares, std::function<void()> ended) override;
  void sum(std::size_t communicator, const std::vector<std::int32_t>& members,
           std::vector<std::span<double>> shares, std::function<void()> ended) override;

  void begin(RunEars ears) override;
  Duration clock_ahead() const override;
  void tell_loss(std::int64_t sample, double loss, Time at) override;
  void tell_update(std::int64_t batch, std::size_t first_tensor, const UpdateSeen& update) override;
  std::vector<const Progress*> progress_elsewhere() const override;
  std::string describe(const Progress& elsewhere) const override;
  std::string overdue() const override;
  std::string fail(const std::string& why) override;
  void stop() override;
  std::vector<std::string> gather(std::string mine) override;
  std::string broadcast(std::string mine) override;
  void agree(const std::string& what, std::uint64_t hash) override;
  void check() const override;
  void end() override;
  void abort() override;

 private:
  /// Of a device that another rank runs, as its heartbeats tell.
  struct Elsewhere {
    DeviceId device{};
    Progress progress;
  };

  std::int32_t other_end(std::size_t communicator) const;
  void hear(std::int32_t from, MessageKind kind, const std::string& message);
  void hear_heartbeat(std::int32_t from, const std::string& message);
  void hear_update(const std::string& message);
  std::string heartbeat() const;
  std::string last_seen_at(std::int32_t rank) const;
  void be_over();

  RankGroup& group_;
  const CommunicatorPlans plans_;
  const DeviceRanks rank_of_;
  const Notice on_stuck_;
  std::unique_ptr<MessageEngine> engine_;
  std::map<DeviceId, std::unique_ptr<Elsewhere>> elsewhere_;
  mutable std::mutex mutex_;
  RunEars ears_;
  StateEars state_ears_;
  bool over_ = false;
  std::map<std::int32_t, std::vector<ChannelCount>> counts_;  // of other ranks, as they tell
  std::mutex state_mutex_;
  std::atomic<bool> ended_early_{false};
  std::condition_variable_any ended_;
  std::jthread alarm_;
};

}  // namespace tandem
