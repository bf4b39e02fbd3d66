#include "executor/ranks/link_rates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/packing.h"

namespace tandem {

namespace {

using LinkClock = std::chrono::steady_clock;

constexpr std::size_t kSmallProbe = 64, kLeastProbe = 256 << 10, kMostProbe = 8 << 20;
constexpr Duration kLongEnough = std::chrono::milliseconds(20);
constexpr int kSmallRounds = 200, kLargeRounds = 9, kBusyRounds = 5;

/// What a rank sends to one other and receives from it, of any number under way at once.
class Exchange {
 public:
  explicit Exchange(RankGroup& group)
      : group_(group), out_(kMostProbe), in_(static_cast<std::size_t>(group.ranks())) {
    std::vector<CommunicatorPlan> plans;
    DeviceRanks ranks;
    for (std::int32_t rank = 0; rank < group.ranks(); ++rank) {
      ranks.push_back(rank);
      for (std::int32_t other = rank + 1; other < group.ranks(); ++other) {
        channels_[{rank, other}] = plans.size();
        plans.push_back({fmt::format("link {}-{}", rank, other),
                         {id_at<DeviceId>(static_cast<std::size_t>(rank)),
                          id_at<DeviceId>(static_cast<std::size_t>(other))}});
      }
    }
    engine_ = group.connect(CommunicatorPlans(std::move(plans)), ranks);
    group_.listen({.on_message = {},
                   .on_failure = [this](const std::string& why) { fail(why); },
                   .heartbeat = {},
                   .last_seen_at = {}});
  }
  ~Exchange() {
    group_.listen({});
    engine_->abort();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(std::int32_t to, std::size_t bytes) {
    begin();
    engine_->send(to, channel(to), std::span(out_).first(bytes), [this] { end(); });
  }
  void receive(std::int32_t from, std::size_t bytes) {
    begin();
    Inbox& box = inbox(from);
    box.bytes.resize(std::max(box.bytes.size(), bytes));
    engine_->receive(from, channel(from), std::span(box.bytes).first(bytes),
                     [this, &box](MessageEngine::Time) {
                       box.arrived = LinkClock::now();
                       end();
                     });
  }
  /// A message that says how long the next one is.
  void send_length(std::int32_t to, std::size_t bytes) {
    begin();
    auto& header = inbox(to).header;
    std::memcpy(header.data(), &bytes, sizeof bytes);
    engine_->send(to, channel(to), header, [this] { end(); });
  }
  std::size_t length(std::int32_t from) {
    std::size_t bytes = 0;
    std::memcpy(&bytes, inbox(from).bytes.data(), sizeof bytes);
    return bytes;
  }
  /// Until all are there. Throws DeviceError.
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return under_way_ == 0 || failure_; });
    if (failure_) throw DeviceError(*failure_);
  }
  LinkClock::time_point arrived(std::int32_t from) { return inbox(from).arrived; }

 private:
  struct Inbox {
    std::vector<std::byte> bytes;
    std::array<std::byte, kSmallProbe> header{};  // of what goes there
    LinkClock::time_point arrived{};
  };
  Inbox& inbox(std::int32_t rank) { return in_[static_cast<std::size_t>(rank)]; }
  std::size_t channel(std::int32_t other) const {
    return channels_.at(std::minmax(group_.rank(), other));
  }
  void begin() {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --under_way_;
    ended_.notify_all();
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    failure_ = why;
    ended_.notify_all();
  }

  RankGroup& group_;
  std::vector<std::byte> out_;
  std::vector<Inbox> in_;  // by rank
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> channels_;
  std::unique_ptr<MessageEngine> engine_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t under_way_ = 0;
  std::optional<std::string> failure_;
};

/// Until that one has had the message, and said so.
Duration send_and_wait(Exchange& exchange, std::int32_t to, std::size_t bytes, int rounds) {
  std::vector<Duration> times;
  for (int i = 0; i < rounds; ++i) {
    const auto start = LinkClock::now();
    exchange.receive(to, kSmallProbe);
    exchange.send_length(to, bytes);
    exchange.send(to, bytes);
    exchange.wait();
    times.push_back(LinkClock::now() - start);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

/// The other end of that: until a length of nothing.
void answer(Exchange& exchange, std::int32_t from) {
  while (true) {
    exchange.receive(from, kSmallProbe);
    exchange.wait();
    const std::size_t bytes = exchange.length(from);
    if (bytes == 0) return;
    exchange.receive(from, bytes);
    exchange.wait();
    exchange.send(from, kSmallProbe);
    exchange.wait();
  }
}

double rate_of(std::size_t bytes, Duration time) {
  return static_cast<double>(bytes) / std::max(to_seconds(time), 1e-9);
}

LinkRate measure_alone(Exchange& exchange, std::int32_t from, std::int32_t to) {
  LinkRate link{.from = from, .to = to};
  const Duration small = send_and_wait(exchange, to, kSmallProbe, kSmallRounds);
  link.latency = small / 2;
  std::size_t bytes = kLeastProbe;
  while (bytes < kMostProbe && send_and_wait(exchange, to, bytes, 1) < kLongEnough) bytes *= 2;
  const Duration large = send_and_wait(exchange, to, bytes, kLargeRounds);
  link.bytes_per_s = rate_of(bytes, large - small);
  exchange.send_length(to, 0);
  exchange.wait();
  return link;
}

/// Each rank to all others at once, for as long as it would take alone. What arrives here.
std::vector<LinkRate> measure_busy(RankGroup& group, Exchange& exchange,
                                   const std::vector<LinkRate>& alone) {
  std::vector<LinkRate> arriving;
  for (std::int32_t other = 0; other < group.ranks(); ++other) {
    if (other != group.rank()) arriving.push_back({.from = other, .to = group.rank()});
  }
  std::vector<std::vector<double>> rates(arriving.size());
  for (int round = 0; round < kBusyRounds; ++round) {
    std::map<std::int32_t, std::size_t> lengths;
    for (const LinkRate& link : alone) {
      const auto long_enough = static_cast<std::size_t>(link.bytes_per_s * to_seconds(kLongEnough));
      lengths[link.to] = std::clamp(long_enough, kLeastProbe, kMostProbe);
      exchange.receive(link.to, kSmallProbe);
      exchange.send_length(link.to, lengths[link.to]);
    }
    exchange.wait();
    group.barrier();
    const auto start = LinkClock::now();
    std::vector<std::size_t> expected;
    for (const LinkRate& link : arriving) {
      expected.push_back(exchange.length(link.from));
      exchange.receive(link.from, expected.back());
      exchange.send(link.from, lengths[link.from]);
    }
    exchange.wait();
    for (std::size_t i = 0; i < arriving.size(); ++i)
      rates[i].push_back(rate_of(expected[i], exchange.arrived(arriving[i].from) - start));
  }
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    std::ranges::sort(rates[i]);
    arriving[i].bytes_per_s_busy = rates[i][rates[i].size() / 2];
  }
  return arriving;
}

/// On rank 0 what all ranks have, in their order.
template <class T>
std::vector<T> gather_all(RankGroup& group, const std::vector<T>& mine) {
  std::vector<T> all;
  for (const std::string& one : group.gather(Packer().add_all(std::span(mine)).take())) {
    const std::vector<T> its = Unpacker(one).all<T>();
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

}  // namespace

std::vector<LinkRate> measure_links(RankGroup& group) {
  Exchange exchange(group);
  std::vector<LinkRate> alone;
  for (std::int32_t from = 0; from < group.ranks(); ++from) {
    for (std::int32_t to = 0; to < group.ranks(); ++to) {
      if (from == to) continue;
      group.barrier();
      if (group.rank() == from) alone.push_back(measure_alone(exchange, from, to));
      if (group.rank() == to) answer(exchange, from);
    }
  }
  group.barrier();
  const std::vector<LinkRate> busy = gather_all(group, measure_busy(group, exchange, alone));
  std::vector<LinkRate> links = gather_all(group, alone);
  for (LinkRate& link : links) {
    for (const LinkRate& seen : busy) {
      if (seen.from == link.from && seen.to == link.to)
        link.bytes_per_s_busy = seen.bytes_per_s_busy;
    }
  }
  group.barrier();
  return links;
}

}  // namespace tandem
