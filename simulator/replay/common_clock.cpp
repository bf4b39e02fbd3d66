#include "simulator/replay/common_clock.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

namespace tandem {

namespace {

constexpr Duration kLongAgo = -std::chrono::hours(24 * 365 * 100);

/// One end of a transfer: a device, and the place among what it saw.
struct End {
  std::size_t device = 0, place = 0;
  bool known = false;
};
using Ends = std::pair<End, End>;  // of the sender, of the receiver
using SeenOps = std::vector<std::vector<SeenOp>>;

std::vector<Ends> pair_ends(const SeenOps& seen, std::size_t instructions) {
  std::vector<Ends> pairs(instructions);
  for (std::size_t device = 0; device < seen.size(); ++device) {
    for (std::size_t place = 0; place < seen[device].size(); ++place) {
      const SeenOp& op = seen[device][place];
      if (!op.transfer) continue;
      Ends& ends = pairs[op.instruction];
      (op.receives ? ends.second : ends.first) = {device, place, true};
    }
  }
  std::erase_if(pairs, [](const Ends& ends) { return !ends.first.known || !ends.second.known; });
  return pairs;
}

/// How far each device's clock is ahead of that of device 0.
std::vector<Duration> offsets_of(const SeenOps& seen, const std::vector<Ends>& pairs) {
  // By the lower device of two neighbours: how much later the upper one saw the end of what it
  // received, and of what it sent.
  std::vector<std::array<std::vector<Duration>, 2>> later(seen.size());
  for (const auto& [sent, received] : pairs) {
    const Duration lag =
        seen[received.device][received.place].end - seen[sent.device][sent.place].end;
    if (received.device == sent.device + 1) later[sent.device][0].push_back(lag);
    if (sent.device == received.device + 1) later[received.device][1].push_back(-lag);
  }
  std::vector<Duration> offsets(seen.size());
  for (std::size_t device = 1; device < seen.size(); ++device) {
    Duration sum{};
    int ways = 0;
    for (std::vector<Duration>& lags : later[device - 1]) {
      if (lags.empty()) continue;
      const auto middle = lags.begin() + static_cast<std::ptrdiff_t>(lags.size() / 2);
      std::nth_element(lags.begin(), middle, lags.end());
      sum += *middle;
      ++ways;
    }
    offsets[device] = offsets[device - 1] + (ways > 0 ? sum / ways : sum);
  }
  return offsets;
}

/// When each op could begin, by its device's clock: what came before it, and what was begun
/// together with it, had ended. Long ago for what came first.
std::vector<Duration> ready_times(const std::vector<SeenOp>& ops) {
  std::vector<Duration> ready;
  for (std::size_t place = 0; place < ops.size(); ++place) {
    if (place == 0) {
      ready.push_back(kLongAgo);
    } else {
      const bool together = ops[place].transfer && ops[place - 1].transfer &&
                            begun_together(ops[place - 1], ops[place]);
      ready.push_back(together ? ready.back() : ops[place - 1].end);
    }
  }
  return ready;
}

Duration distance(Duration a, Duration b) { return a < b ? b - a : a - b; }

/// When both ends of a transfer were ready for it and when it began, on the common clock.
class TransferClock {
 public:
  TransferClock(const SeenOps& seen, const std::vector<Duration>& offsets, bool blocking)
      : seen_(seen), offsets_(offsets), blocking_(blocking) {
    for (const std::vector<SeenOp>& ops : seen) ready_.push_back(ready_times(ops));
  }

  /// When both had done what came before, on the common clock.
  Duration ready_of(const End& sent, const End& received) const {
    return std::max(own_ready(sent), own_ready(received));
  }

  Duration start_of(const End& sent, const End& received) const {
    constexpr Duration kSame = std::chrono::microseconds(1);  // as rounded in files
    const Duration by_sender = own_start(sent), by_receiver = own_start(received);
    const Duration moment = at(sent).start;
    if (distance(moment, at(received).start) >= kSame) return std::max(by_sender, by_receiver);
    if (!blocking_) {
      const bool sender = at(sent).end <= at(received).end;
      return sender ? by_sender : by_receiver;
    }
    const bool receiver = distance(moment, ready_[received.device][received.place]) <
                          distance(moment, ready_[sent.device][sent.place]);
    // By a clock by which it ended sooner nobody began it.
    const bool came_later = at(received).end < moment ? false : receiver || at(sent).end < moment;
    return came_later ? std::max(by_receiver, own_ready(sent))
                      : std::max(by_sender, own_ready(received));
  }

 private:
  const SeenOp& at(const End& end) const { return seen_[end.device][end.place]; }
  Duration own_start(const End& end) const { return at(end).start - offsets_[end.device]; }
  Duration own_ready(const End& end) const {
    return ready_[end.device][end.place] - offsets_[end.device];
  }

  const SeenOps& seen_;
  const std::vector<Duration>& offsets_;
  bool blocking_;
  std::vector<std::vector<Duration>> ready_;
};

}  // namespace

bool begun_together(const SeenOp& last, const SeenOp& next) {
  constexpr Duration kOneEnd = std::chrono::microseconds(1);  // what takes no time overlaps nothing
  const Duration shared = std::min(last.end, next.end) - std::max(last.start, next.start);
  return next.end - last.end < kOneEnd || shared > distance(last.start, next.start);
}

void align_clocks(SeenOps& seen, std::size_t instructions, bool blocking) {
  const std::vector<Ends> pairs = pair_ends(seen, instructions);
  const std::vector<Duration> offsets = offsets_of(seen, pairs);
  const TransferClock transfers(seen, offsets, blocking);
  std::vector<Duration> starts, ready;
  for (const auto& [sent, received] : pairs) {
    starts.push_back(transfers.start_of(sent, received));
    ready.push_back(transfers.ready_of(sent, received));
  }
  for (std::size_t device = 0; device < seen.size(); ++device) {
    for (SeenOp& op : seen[device]) {
      op.end -= offsets[device];
      op.start = std::min(op.start - offsets[device], op.end);
    }
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    for (const End& end : {pairs[i].first, pairs[i].second}) {
      SeenOp& op = seen[end.device][end.place];
      op.start = std::min(starts[i], op.end);
      op.ready = std::min(ready[i], op.start);
    }
  }
}

}  // namespace tandem
