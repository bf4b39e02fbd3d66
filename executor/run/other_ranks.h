#pragma once
// OtherRanks: the processes that run the other devices of a run, as a TrainingRun sees them. The
// program does not know of ranks: what crosses from one to another is known from where devices are.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "executor/run/communicator_plans.h"
#include "executor/run/step_log.h"
#include "executor/run/watchdog.h"

namespace tandem {

/// What a run in this process tells of itself, and what it is told.
struct RunEars {
  std::vector<std::pair<DeviceId, const Progress*>> progress;  // of devices here
  /// What a device anywhere is at: "device 2, f9 (microbatch 17)".
  std::function<std::string(DeviceId, const Progress&)> describe;
  // By other threads:
  std::function<void(std::int64_t sample, double loss, std::chrono::steady_clock::time_point at)>
      on_loss;
  std::function<void(std::int64_t batch, std::size_t first_tensor, const UpdateSeen&)> on_update;
  std::function<void(const std::string&)> on_failure;  // of another rank, or of the way to it
  std::function<void()> on_stop;                       // some rank was asked to
};

/// What is given is the ranks' until `ended` is called, by another thread, once: or never, where
/// the run is aborted.
class OtherRanks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  OtherRanks() = default;
  virtual ~OtherRanks() = default;
  OtherRanks(const OtherRanks&) = delete;
  OtherRanks& operator=(const OtherRanks&) = delete;

  virtual std::int32_t rank() const = 0;
  bool is_first() const { return rank() == 0; }
  virtual std::int32_t rank_of(DeviceId device) const = 0;
  bool runs_here(DeviceId device) const { return rank_of(device) == rank(); }
  /// Of what crosses from rank to rank.
  virtual const CommunicatorPlans& plans() const = 0;

  virtual void send(std::size_t communicator, std::span<const std::byte> bytes,
                    std::function<void()> ended) = 0;
  /// `ended` is told when the sender sent it, by the clock here.
  virtual void receive(std::size_t communicator, std::span<std::byte> into,
                       std::function<void(Time)> ended) = 0;
  /// Adds in the order of the members, each of a rank, and gives all of them the sum. `shares`: of
  /// the members here, in their order.
  virtual void sum(std::size_t communicator, const std::vector<std::int32_t>& members,
                   std::vector<std::span<float>> shares, std::function<void()> ended) = 0;
  virtual void sum(std::size_t communicator, const std::vector<std::int32_t>& members,
                   std::vector<std::span<double>> shares, std::function<void()> ended) = 0;

  /// Returns when all ranks have called it, or throws DeviceError where one has failed.
  virtual void begin(RunEars ears) = 0;
  /// By how much the clock here is ahead of the first rank's.
  virtual Duration clock_ahead() const = 0;
  /// What the first rank logs.
  virtual void tell_loss(std::int64_t sample, double loss, Time at) = 0;
  virtual void tell_update(std::int64_t batch, std::size_t first_tensor,
                           const UpdateSeen& update) = 0;
  /// Of devices that are not here, on the first rank.
  virtual std::vector<const Progress*> progress_elsewhere() const = 0;
  virtual std::string describe(const Progress& elsewhere) const = 0;
  /// On the first rank, of what one rank has given and another waits for: what it is, and whose.
  /// Empty: nothing is known to be.
  virtual std::string overdue() const = 0;

  /// Tells all ranks that this one has failed, unless one has before. Returns what is said of that
  /// everywhere: which rank, and why.
  virtual std::string fail(const std::string& why) = 0;
  /// Tells all ranks to stop.
  virtual void stop() = 0;
  /// Gives the first rank what each one brings, by rank, and the others nothing. Throws
  /// DeviceError where a rank has failed.
  virtual std::vector<std::string> gather(std::string mine) = 0;
  /// Gives all ranks what the first one brings. Throws DeviceError where a rank has failed.
  virtual std::string broadcast(std::string mine) = 0;
  /// Throws InputError, on all ranks, where one has another `hash` of `what` than the first.
  virtual void agree(const std::string& what, std::uint64_t hash) = 0;
  /// Throws DeviceError where a rank has failed. Does not wait.
  virtual void check() const = 0;
  /// Returns when all ranks have called it, and have no more to do with one another.
  virtual void end() = 0;
  /// Drops what is under way. When it returns, nothing is called any more.
  virtual void abort() = 0;
};

}  // namespace tandem
