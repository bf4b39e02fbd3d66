#include "executor/ranks/rank_run.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/packing.h"
#include "executor/ranks/canonical_sum.h"

namespace tandem {

namespace {

/// What a device is at, as a heartbeat tells. Times are of the run, by the clock of its rank.
struct DeviceBeat {
  DeviceId device{};
  std::int32_t works = 0;
  InstructionId id{};
  std::int64_t microbatch = 0, ended = 0;
  Duration since{}, longest{};
};

constexpr auto kLongestEnd = std::chrono::seconds(4);

}  // namespace

RankRun::RankRun(RankGroup& group, CommunicatorPlans plans, DeviceRanks rank_of, Notice on_stuck)
    : group_(group),
      plans_(std::move(plans)),
      rank_of_(std::move(rank_of)),
      on_stuck_(std::move(on_stuck)),
      engine_(group.connect(plans_, rank_of_)) {
  for (const DeviceId device : ids(rank_of_)) {
    if (rank_of_[device] == rank()) continue;
    auto& made = elsewhere_[device] = std::make_unique<Elsewhere>();
    made->device = device;
  }
}

RankRun::~RankRun() { RankRun::abort(); }

std::int32_t RankRun::other_end(std::size_t communicator) const {
  const std::vector<DeviceId>& devices = plans_.all()[communicator].devices;
  const std::int32_t first = rank_of_[devices.front()];
  return first == rank() ? rank_of_[devices.back()] : first;
}

void RankRun::send(std::size_t communicator, std::span<const std::byte> bytes,
                   std::function<void()> ended) {
  engine_->send(other_end(communicator), communicator, bytes, std::move(ended));
}

void RankRun::receive(std::size_t communicator, std::span<std::byte> into,
                      std::function<void(Time)> ended) {
  const std::int32_t from = other_end(communicator);
  const Duration ahead = clock_ahead() - group_.info(from).clock_ahead;
  engine_->receive(from, communicator, into,
                   [ended = std::move(ended), ahead](Time left) { ended(left + ahead); });
}

void RankRun::sum(std::size_t communicator, const std::vector<std::int32_t>& members,
                  std::vector<std::span<float>> shares, std::function<void()> ended) {
  CanonicalSum<float>::begin(*engine_, communicator, rank(), members, std::move(shares),
                             std::move(ended));
}
void RankRun::sum(std::size_t communicator, const std::vector<std::int32_t>& members,
                  std::vector<std::span<double>> shares, std::function<void()> ended) {
  CanonicalSum<double>::begin(*engine_, communicator, rank(), members, std::move(shares),
                              std::move(ended));
}

Duration RankRun::clock_ahead() const { return group_.info(rank()).clock_ahead; }

void RankRun::begin(RunEars ears) {
  {
    const std::lock_guard lock(mutex_);
    ears_ = std::move(ears);
  }
  group_.listen({.on_message = [this](std::int32_t from, MessageKind kind,
                                      const std::string& message) { hear(from, kind, message); },
                 .on_failure =
                     [this](const std::string& why) {
                       if (ears_.on_failure) ears_.on_failure(why);
                       be_over();
                     },
                 .heartbeat = [this] { return heartbeat(); },
                 .last_seen_at = [this](std::int32_t rank) { return last_seen_at(rank); }});
  group_.barrier();
}

/// A failed run must end: whoever computes on, deaf to that, ends with the process.
void RankRun::be_over() {
  ended_early_ = true;
  const std::lock_guard lock(mutex_);
  if (over_ || alarm_.joinable()) return;
  alarm_ = std::jthread([this](const std::stop_token& stop) {
    std::unique_lock waiting(mutex_);
    ended_.wait_for(waiting, stop, kLongestEnd, [this] { return over_; });
    if (over_ || stop.stop_requested()) return;
    tandem::tell(on_stuck_, group_.fail("the run does not end"));
    kill_what_stands_still();
    std::_Exit(1);
  });
}

void RankRun::tell_loss(std::int64_t sample, double loss, Time at) {
  group_.tell_first(MessageKind::loss,
                    Packer().add(sample).add(loss).add(at - clock_ahead()).take());
}

void RankRun::tell_update(std::int64_t batch, std::size_t first_tensor, const UpdateSeen& update) {
  group_.tell_first(MessageKind::update, Packer()
                                             .add(batch)
                                             .add(first_tensor)
                                             .add(update.skipped)
                                             .add(update.rolled_back)
                                             .add(update.at - clock_ahead())
                                             .add_all(update.squares)
                                             .take());
}

void RankRun::listen_for_state(StateEars ears) {
  const std::lock_guard lock(state_mutex_);
  state_ears_ = std::move(ears);
}
void RankRun::tell_first(MessageKind kind, std::string message) {
  group_.tell_first(kind, std::move(message));
}
void RankRun::tell_first_long(MessageKind kind, std::string message) {
  group_.tell_first_long(kind, std::move(message));
}
void RankRun::tell(std::int32_t rank, MessageKind kind, std::string message) {
  group_.tell(rank, kind, std::move(message));
}

void RankRun::hear(std::int32_t from, MessageKind kind, const std::string& message) {
  switch (kind) {
    case MessageKind::heartbeat:
      return hear_heartbeat(from, message);
    case MessageKind::loss: {
      Unpacker of(message);
      const auto sample = of.get<std::int64_t>();
      const auto loss = of.get<double>();
      return ears_.on_loss(sample, loss, of.get<Time>());
    }
    case MessageKind::update:
      return hear_update(message);
    case MessageKind::stop:
      return ears_.on_stop();
    default:
      break;
  }
  const std::lock_guard lock(state_mutex_);
  if (state_ears_) state_ears_(from, kind, message);
}

void RankRun::hear_update(const std::string& message) {
  Unpacker of(message);
  const auto batch = of.get<std::int64_t>();
  const auto first_tensor = of.get<std::size_t>();
  UpdateSeen seen;
  seen.skipped = of.get<bool>();
  seen.rolled_back = of.get<bool>();
  seen.at = of.get<Time>();
  const std::vector<double> squares = of.all<double>();
  seen.squares = squares;
  ears_.on_update(batch, first_tensor, seen);
}

std::string RankRun::heartbeat() const {
  std::vector<DeviceBeat> beats;
  for (const auto& [device, progress] : ears_.progress) {
    beats.push_back({.device = device,
                     .works = progress->working() ? 1 : 0,
                     .id = progress->id(),
                     .microbatch = progress->microbatch(),
                     .ended = progress->ended(),
                     .since = progress->since(),
                     .longest = progress->longest()});
  }
  const std::vector<ChannelCount> counts = engine_->counts();
  return Packer()
      .add_all(std::span<const DeviceBeat>(beats))
      .add_all(std::span<const ChannelCount>(counts))
      .take();
}

void RankRun::hear_heartbeat(std::int32_t from, const std::string& message) {
  if (message.empty()) return;
  Unpacker of(message);
  for (const DeviceBeat& beat : of.all<DeviceBeat>()) {
    const auto found = elsewhere_.find(beat.device);
    if (found == elsewhere_.end()) continue;
    found->second->progress.mirror({.works = beat.works != 0,
                                    .id = beat.id,
                                    .microbatch = beat.microbatch,
                                    .ended = beat.ended,
                                    .since = beat.since,
                                    .longest = beat.longest});
  }
  std::vector<ChannelCount> counts = of.all<ChannelCount>();
  const std::lock_guard lock(mutex_);
  counts_[from] = std::move(counts);
}

std::vector<const Progress*> RankRun::progress_elsewhere() const {
  std::vector<const Progress*> all;
  for (const auto& [device, elsewhere] : elsewhere_) all.push_back(&elsewhere->progress);
  return all;
}

std::string RankRun::describe(const Progress& progress) const {
  for (const auto& [device, elsewhere] : elsewhere_) {
    if (&elsewhere->progress == &progress) {
      return fmt::format("{}: {}", group_.name(rank_of(device)), ears_.describe(device, progress));
    }
  }
  return {};
}

std::string RankRun::overdue() const {
  const std::vector<ChannelCount> here = engine_->counts();
  const std::lock_guard lock(mutex_);
  auto all = counts_;
  all[rank()] = here;
  std::string text;
  for (const auto& [sender, sent] : all) {
    for (const ChannelCount& given : sent) {
      for (const ChannelCount& taken : all[given.rank]) {
        if (taken.rank != sender || taken.channel != given.channel) continue;
        if (!taken.waits || taken.arrived >= given.given) continue;
        text += fmt::format("{}frame {} of {} has not come from {} to {}", text.empty() ? "" : ", ",
                            taken.arrived, plans_.all()[given.channel].name, group_.name(sender),
                            group_.name(given.rank));
      }
    }
  }
  return text;
}

std::string RankRun::last_seen_at(std::int32_t rank) const {
  std::string at;
  for (const auto& [device, elsewhere] : elsewhere_) {
    if (rank_of(device) != rank || !ears_.describe || elsewhere->progress.ended() == 0) continue;
    at += (at.empty() ? "" : ", ") + ears_.describe(device, elsewhere->progress);
  }
  return at;
}

std::string RankRun::fail(const std::string& why) { return group_.fail(why); }
void RankRun::stop() { group_.stop_all(); }
std::vector<std::string> RankRun::gather(std::string mine) {
  return group_.gather(std::move(mine));
}
std::string RankRun::broadcast(std::string mine) { return group_.broadcast(std::move(mine)); }
void RankRun::agree(const std::string& what, std::uint64_t hash) { group_.agree(what, hash); }
void RankRun::check() const { group_.check(); }

void RankRun::end() {
  group_.barrier();
  abort();
}

void RankRun::abort() {
  ended_early_ = true;
  group_.listen({});
  engine_->abort();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
}

}  // namespace tandem
