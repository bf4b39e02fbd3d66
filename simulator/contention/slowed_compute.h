#pragma once
// SlowedCompute: ops on compute lanes that run slower while their device takes part in a transfer
// or a sum. What is left of an op is rescaled whenever that begins or ceases.

#include <cstdint>
#include <vector>

#include "simulator/contention/fair_shares.h"

namespace tandem {

/// Times are ticks from the start of the run and never go back.
class SlowedCompute {
 public:
  /// By device; 1: never slowed.
  explicit SlowedCompute(const std::vector<double>& slowdowns);

  /// REQUIRES: no op runs on the device.
  void begin(std::size_t device, std::uint32_t op, std::int64_t work, std::int64_t now);
  void movement_begins(std::size_t device) { change(device, 1); }
  void movement_ends(std::size_t device) { change(device, -1); }

  /// Something began or ended since speeds were last settled.
  bool unsettled() const { return !changed_.empty(); }
  /// Gives all ops their speeds from `now` on. Called once all that begins or ends now has.
  void settle(std::int64_t now);

  /// When the next op ends; kNever: none runs.
  std::int64_t next_end();
  /// Ends that op. REQUIRES: next_end() is now.
  std::uint32_t end();

 private:
  struct Device {
    double slowdown = 1.0;
    std::int32_t movements = 0;
    bool runs = false, changed = false;
    std::uint32_t op = 0, stamp = 0;
    double left = 0.0;    // ticks of the op if nothing slows it …
    std::int64_t at = 0;  // … as of this time
    double pace = 0.0;    // ticks that one of them takes; 0: not settled yet
  };

  void change(std::size_t device, std::int32_t movements);

  std::vector<Device> devices_;
  std::vector<std::uint32_t> changed_;
  DueEvents ends_;
};

}  // namespace tandem
