#include "executor/ranks/rank_group.h"

#include <algorithm>
#include <array>
#include <future>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/packing.h"

namespace tandem {

namespace asio = boost::asio;

namespace {

/// A timer that is later than this was held up: the process was stopped, and the others' silence is
/// no sign.
constexpr auto kHeldUp = std::chrono::seconds(1);
/// Of a rank's silence, after which it is looked for on this host.
constexpr auto kDoubtful = std::chrono::milliseconds(500);

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

RankGroup::RankGroup(RankGroupSetup setup)
    : setup_(std::move(setup)),
      context_(1),
      goes_on_(asio::make_work_guard(context_)),
      heart_(context_),
      doubt_(context_),
      local_watch_(setup_.standing_still),
      infos_(static_cast<std::size_t>(setup_.ranks)),
      greeted_(infos_.size()) {
  TANDEM_CHECK(setup_.rank >= 0 && setup_.rank < setup_.ranks, setup_.rank, setup_.ranks);
  RankInfo& mine = infos_[static_cast<std::size_t>(setup_.rank)];
  mine.host = host_name();
  mine.process = getpid();
  // From the first connection: who falls silent while others are awaited is lost, too.
  last_beat_ = std::chrono::steady_clock::now();
  asio::post(context_, [this] { beat(); });
  try {
    setup_.rank == 0 ? start_first() : start_other();
  } catch (...) {
    leave();
    throw;
  }
}

RankGroup::~RankGroup() { leave(); }

void RankGroup::leave() {
  part();
  // Long enough to send what was said last, if there is anybody.
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(links().empty() ? 0 : 1);
  goes_on_.reset();
  asio::post(context_, [this] {
    heart_.cancel();
    doubt_.cancel();
    if (listener_) listener_->close();
  });
  while (thread_.joinable() && !context_.stopped() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  context_.stop();
}

std::map<std::int32_t, RankGroup::Link> RankGroup::links() const {
  const std::lock_guard lock(mutex_);
  std::map<std::int32_t, Link> there;
  for (const auto& [rank, link] : links_) {
    if (link) there.emplace(rank, link);
  }
  return there;
}

std::string RankGroup::name(std::int32_t rank) const {
  if (info(rank).process == 0) return fmt::format("rank {}", rank);  // it has not said yet
  return fmt::format("rank {} (host {}, process {})", rank, info(rank).host, info(rank).process);
}

void RankGroup::hear(std::int32_t from, MessageKind kind, std::string payload) {
  switch (kind) {
    case MessageKind::ping:
      return answer_ping(from, payload);
    case MessageKind::pong:
      return take_pong(payload);
    case MessageKind::hello:
      return greet(from, payload);
    case MessageKind::awaited:
      return tandem::tell(setup_.on_notice, payload);
    case MessageKind::welcome:
      return take_welcome(payload);
    case MessageKind::refusal:
      return hear_failure(payload, true);
    case MessageKind::failure:
      if (setup_.rank == 0) return announce(payload);
      return hear_failure(payload, false);
    case MessageKind::arrived: {
      const std::lock_guard lock(mutex_);
      ++arrived_[Unpacker(payload).get<std::int64_t>()];
      return pass_barrier();
    }
    case MessageKind::go_on: {
      const std::lock_guard lock(mutex_);
      passed_ = Unpacker(payload).get<std::int64_t>();
      return changed_.notify_all();
    }
    case MessageKind::gathered: {
      Unpacker unpacker(payload);
      const auto number = unpacker.get<std::int64_t>();
      const std::lock_guard lock(mutex_);
      gathered_[number][from] = unpacker.text();
      return changed_.notify_all();
    }
    case MessageKind::broadcast: {
      Unpacker unpacker(payload);
      const auto number = unpacker.get<std::int64_t>();
      const std::lock_guard lock(mutex_);
      broadcast_[number] = unpacker.text();
      return changed_.notify_all();
    }
    case MessageKind::over:
      return;
    case MessageKind::stop:
      if (setup_.rank == 0) stop_all();
      break;
    default:
      break;
  }
  std::function<void(std::int32_t, MessageKind, const std::string&)> on_message;
  {
    const std::lock_guard lock(mutex_);
    on_message = ears_.on_message;
  }
  if (on_message) on_message(from, kind, payload);
}

void RankGroup::listen(Ears ears) {
  std::optional<std::string> failure;
  const auto on_failure = ears.on_failure;
  {
    const std::lock_guard lock(mutex_);
    ears_ = std::move(ears);
    failure = failure_;
  }
  if (std::this_thread::get_id() == thread_.get_id()) return;
  // Whoever is being told by the ears before must have come to an end.
  std::promise<void> told;
  asio::post(context_, [&told] { told.set_value(); });
  told.get_future().wait();
  if (failure && on_failure) on_failure(*failure);
}

void RankGroup::tell_first(MessageKind kind, std::string payload) {
  if (setup_.rank == 0) return hear(0, kind, std::move(payload));
  tell(0, kind, std::move(payload));
}

void RankGroup::tell_first_long(MessageKind kind, std::string payload) {
  if (setup_.rank == 0) return hear(0, kind, std::move(payload));
  Link link;
  {
    const std::lock_guard lock(mutex_);
    link = links_.at(0);
  }
  link->send_long(kind, std::move(payload));
}

void RankGroup::tell(std::int32_t rank, MessageKind kind, std::string payload) {
  Link link;
  {
    const std::lock_guard lock(mutex_);
    const auto found = links_.find(rank);
    if (found == links_.end() || !found->second) return;
    link = found->second;
  }
  link->send(kind, std::move(payload));
}

void RankGroup::wait(const std::function<bool()>& there, const std::string& what,
                     Duration patience) {
  std::unique_lock lock(mutex_);
  const auto done = [&] { return failure_ || there(); };
  bool in_time = true;
  if (patience == Duration::max()) {
    changed_.wait(lock, done);
  } else {
    const Duration first = std::min(setup_.before_note, patience);
    in_time = changed_.wait_for(lock, first, done);
    if (!in_time && patience > first) {
      lock.unlock();
      tell_awaited(what);
      lock.lock();
      in_time = changed_.wait_for(lock, patience - first, done);
    }
  }
  check_locked();
  if (in_time) return;
  throw DeviceError(fmt::format("rank {} has waited {:.0f} s for {}{}", setup_.rank,
                                to_seconds(patience), what, missing_ranks()));
}

void RankGroup::pass_barrier() {
  if (arrived_[passed_ + 1] < setup_.ranks) return;
  arrived_.erase(++passed_);
  for (const auto& [rank, link] : links_)
    link->send(MessageKind::go_on, Packer().add(passed_).take());
  changed_.notify_all();
}

void RankGroup::barrier() {
  std::int64_t mine = 0;
  {
    const std::lock_guard lock(mutex_);
    mine = ++barriers_;
  }
  tell_first(MessageKind::arrived, Packer().add(mine).take());
  wait([&] { return passed_ >= mine; }, "the other ranks", Duration::max());
}

std::vector<std::string> RankGroup::gather(std::string mine) {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++gathers_;
  }
  tell_first_long(MessageKind::gathered, Packer().add(number).add_text(mine).take());
  if (setup_.rank != 0) return {};
  wait([&] { return gathered_[number].size() == infos_.size(); }, "what the other ranks report",
       Duration::max());
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (auto& [rank, brought] : gathered_[number]) all.push_back(std::move(brought));
  gathered_.erase(number);
  return all;
}

std::string RankGroup::broadcast(std::string mine) {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++broadcasts_;
  }
  if (setup_.rank == 0) {
    const std::string message = Packer().add(number).add_text(mine).take();
    for (const auto& [rank, link] : links()) link->send(MessageKind::broadcast, message);
    return mine;
  }
  wait([&] { return broadcast_.contains(number); }, "what rank 0 tells", Duration::max());
  const std::lock_guard lock(mutex_);
  return std::move(broadcast_.extract(number).mapped());
}

void RankGroup::check() const {
  const std::lock_guard lock(mutex_);
  check_locked();
}

void RankGroup::check_locked() const {
  if (failure_ && refused_) throw InputError(*failure_);
  if (failure_) throw DeviceError(*failure_);
}

void RankGroup::agree(const std::string& what, std::uint64_t hash) {
  const std::vector<std::string> all = gather(Packer().add(hash).take());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (Unpacker(all[rank]).get<std::uint64_t>() == hash) continue;
    refuse(reason_of_other(static_cast<std::int32_t>(rank), what));
    break;
  }
  barrier();
}

void RankGroup::refuse(const std::string& reason) {
  for (const auto& [rank, link] : links()) link->send(MessageKind::refusal, reason);
  hear_failure(reason, true);
}

std::string RankGroup::reason_of_other(std::int32_t rank, const std::string& what) const {
  return fmt::format("{} has another {} than {}: all ranks must have the same", name(rank), what,
                     name(0));
}

std::string RankGroup::fail(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return *failure_;
    if (parted_) return why;
  }
  const std::string text = fmt::format("{}: {}", name(setup_.rank), why);
  if (setup_.rank == 0) {
    announce(text);
  } else {
    tell(0, MessageKind::failure, text);
    hear_failure(text, false);
  }
  const std::lock_guard lock(mutex_);
  return failure_.value_or(text);
}

void RankGroup::blame(const std::string& why) {
  asio::post(context_, [this, why] { fail(why); });
}

void RankGroup::suspect(const std::string& why) {
  asio::post(context_, [this, why] {
    doubt_.expires_after(setup_.doubt);
    doubt_.async_wait([this, why](const boost::system::error_code& error) {
      if (!error) fail(why);
    });
  });
}

void RankGroup::stop_all() {
  if (setup_.rank != 0) return tell(0, MessageKind::stop, {});
  for (const auto& [rank, link] : links()) link->send(MessageKind::stop, {});
}

void RankGroup::break_links() {
  for (const auto& [rank, link] : links()) link->shut();
}

void RankGroup::part() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(parted_, true)) return;
    ears_ = {};
  }
  for (const auto& [rank, link] : links()) link->close();
}

void RankGroup::beat() {
  const Time now = std::chrono::steady_clock::now();
  const bool held_up = now - last_beat_ > setup_.beat + kHeldUp;
  last_beat_ = now;
  std::function<std::string()> heartbeat;
  {
    const std::lock_guard lock(mutex_);
    if (parted_ || failure_) return;
    heartbeat = ears_.heartbeat;
  }
  const std::string at = heartbeat ? heartbeat() : std::string();
  for (const auto& [rank, link] : links()) {
    if (held_up) link->hear();
    link->send(MessageKind::heartbeat, at);
    if (now - link->heard() > setup_.silence && !held_up)
      lose(rank, fmt::format("has not been heard for {:.1f} s", to_seconds(now - link->heard())));
  }
  look_around(now, held_up);
  heart_.expires_after(setup_.beat);
  heart_.async_wait([this](const boost::system::error_code& error) {
    if (!error) beat();
  });
}

/// A rank that has not joined yet, or is silent, may be on this host: then its system tells why.
void RankGroup::look_around(Time now, bool held_up) {
  if (!setup_.local_ranks) return;
  bool all_there = false;
  {
    const std::lock_guard lock(mutex_);
    all_there = all_there_;
  }
  const auto heard = links();
  const bool doubtful = !all_there || std::ranges::any_of(heard, [now](const auto& each) {
    return now - each.second->heard() > kDoubtful;
  });
  if (held_up || !doubtful) return local_watch_.begin_anew();
  const auto lost = local_watch_.look(now, setup_.local_ranks());
  if (!lost) return;
  if (!all_there) {
    RankInfo& info = infos_[static_cast<std::size_t>(lost->rank)];
    info.host = host_name();
    info.process = lost->process;
  }
  lose(lost->rank, "stands still, stopped by a signal");
}

void RankGroup::lose(std::int32_t rank, const std::string& why) {
  std::function<std::string(std::int32_t)> last_seen_at;
  {
    const std::lock_guard lock(mutex_);
    if (parted_ || failure_) return;
    last_seen_at = ears_.last_seen_at;
  }
  std::string text = fmt::format("{} is lost: it {}", name(rank), why);
  const std::string at = last_seen_at ? last_seen_at(rank) : std::string();
  if (!at.empty()) text += fmt::format("; it was last at {}", at);
  if (setup_.rank == 0) return announce(text);
  if (rank != 0) tell(0, MessageKind::failure, text);
  hear_failure(text, false);
}

/// By the first rank: all are told, the one that it is of too.
void RankGroup::announce(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
  }
  for (const auto& [rank, link] : links()) link->send(MessageKind::failure, text);
  hear_failure(text, false);
}

void RankGroup::hear_failure(const std::string& text, bool refused) {
  std::function<void(const std::string&)> on_failure;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || parted_) return;
    failure_ = text;
    refused_ = refused;
    on_failure = ears_.on_failure;
    changed_.notify_all();
  }
  if (setup_.local_ranks) {
    for (const LocalRank& each : setup_.local_ranks()) {
      if (each.stands_still) kill_at_exit(each);
    }
  }
  if (on_failure) on_failure(text);
}

}  // namespace tandem
