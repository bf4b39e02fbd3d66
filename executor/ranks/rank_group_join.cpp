// How the ranks of a group find one another, and connect.

#include <algorithm>
#include <exception>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/packing.h"
#include "executor/ranks/rank_group.h"

namespace tandem {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int kPings = 8;

std::string pack(const RankInfo& info) {
  return Packer()
      .add_text(info.host)
      .add(info.process)
      .add_text(info.address)
      .add(info.port)
      .add(info.clock_ahead)
      .take();
}
RankInfo unpack_info(Unpacker& from) {
  RankInfo info;
  info.host = from.text();
  info.process = from.get<std::int64_t>();
  info.address = from.text();
  info.port = from.get<std::uint16_t>();
  info.clock_ahead = from.get<Duration>();
  return info;
}

}  // namespace

RankGroup::Socket RankGroup::connect_to_rank(const std::string& host, std::uint16_t port,
                                             ConnectionPurpose purpose, Time deadline) {
  const auto connected = std::make_shared<std::optional<Connected>>();
  asio::co_spawn(context_, connect_to(host, port, setup_.secret, purpose, deadline),
                 [this, connected](const std::exception_ptr& failed, Connected got) {
                   if (failed) got.why = "no memory";
                   const std::lock_guard lock(mutex_);
                   *connected = std::move(got);
                   changed_.notify_all();
                 });
  std::unique_lock lock(mutex_);
  const auto done = [&] { return failure_ || connected->has_value(); };
  if (!changed_.wait_for(lock, setup_.before_note, done)) {
    lock.unlock();
    tandem::tell(setup_.on_notice,
                 fmt::format("rank {} has not found rank {} at {} port {} for {:.0f} s",
                             setup_.rank, purpose.to, host, port, to_seconds(setup_.before_note)));
    lock.lock();
    changed_.wait(lock, done);
  }
  check_locked();
  if ((*connected)->socket) return std::move(*(*connected)->socket);
  throw DeviceError(fmt::format("rank {} does not find rank {} at {} port {}: {}", setup_.rank,
                                purpose.to, host, port, (*connected)->why));
}

void RankGroup::start_first() {
  tcp::resolver resolver(context_);
  boost::system::error_code error;
  const auto places =
      resolver.resolve(setup_.rendezvous_host, std::to_string(setup_.rendezvous_port), error);
  if (error) {
    throw DeviceError(fmt::format("can't find {}: {}", setup_.rendezvous_host, error.message()));
  }
  const auto taken = [this](ConnectionPurpose purpose, Socket socket) {
    take(purpose, std::move(socket));
  };
  listener_ =
      std::make_unique<Listener>(context_, places.begin()->endpoint(), setup_.secret, taken);
  infos_[0].address = places.begin()->endpoint().address().to_string();
  infos_[0].port = listener_->port();
  greeted_[0] = true;
  thread_ = std::jthread([this] { context_.run(); });
  if (setup_.ranks == 1) all_there_ = true;
  wait([this] { return all_there_; }, "ranks to come", setup_.patience);
}

void RankGroup::start_other() {
  thread_ = std::jthread([this] { context_.run(); });
  Socket socket = connect_to_rank(
      setup_.rendezvous_host, setup_.rendezvous_port,
      {.kind = ConnectionPurpose::Kind::control, .rank = setup_.rank, .to = 0, .channel = 0},
      std::chrono::steady_clock::now() + setup_.patience);
  const tcp::endpoint here(socket.local_endpoint().address(), 0);
  RankInfo& mine = infos_[static_cast<std::size_t>(setup_.rank)];
  std::promise<void> ready;
  asio::post(context_, [&] {
    listener_ = std::make_unique<Listener>(
        context_, here, setup_.secret,
        [this](ConnectionPurpose what, Socket taken) { take(what, std::move(taken)); });
    mine.address = here.address().to_string();
    mine.port = listener_->port();
    add_link(0, std::move(socket));
    ready.set_value();
  });
  ready.get_future().wait();
  for (int i = 0; i < kPings; ++i) {
    tell_first(MessageKind::ping, Packer().add(std::chrono::steady_clock::now()).take());
    wait([this, i] { return pongs_ > i; }, "an answer of rank 0", setup_.patience);
  }
  tell_first(MessageKind::hello, hello());
  wait([this] { return all_there_; }, "ranks to come", setup_.patience);
}

void RankGroup::take(ConnectionPurpose purpose, Socket socket) {
  if (purpose.rank < 0 || purpose.rank >= setup_.ranks || purpose.to != setup_.rank) return;
  const std::lock_guard lock(mutex_);
  if (purpose.kind == ConnectionPurpose::Kind::channel) {
    arrivals_.emplace(std::pair{purpose.rank, purpose.channel}, std::move(socket));
    changed_.notify_all();
    return;
  }
  if (setup_.rank != 0 || purpose.rank == 0 || links_.contains(purpose.rank)) return;
  links_.emplace(purpose.rank, nullptr);
  asio::post(context_,
             [this, rank = purpose.rank, kept = std::make_shared<Socket>(std::move(socket))] {
               add_link(rank, std::move(*kept));
             });
}

void RankGroup::add_link(std::int32_t rank, Socket socket) {
  const Link link = std::make_shared<ControlLink>(std::move(socket));
  {
    const std::lock_guard lock(mutex_);
    links_[rank] = link;
  }
  link->start(
      {.on_message = [this, rank](MessageKind kind,
                                  std::string payload) { hear(rank, kind, std::move(payload)); },
       .on_end = [this, rank](const std::string& why) { lose(rank, why); }});
}

std::string RankGroup::hello() const {
  Packer packer;
  packer.add(setup_.ranks).add_text(pack(info(setup_.rank)));
  for (const auto& [name, hash] : setup_.identity) packer.add_text(name).add(hash);
  return packer.take();
}

std::string RankGroup::reason_against(std::int32_t rank, const std::string& hello) const {
  Unpacker from(hello);
  const auto ranks = from.get<std::int32_t>();
  from.text();
  if (ranks != setup_.ranks)
    return fmt::format("{} counts {} ranks, and rank 0 {}", name(rank), ranks, setup_.ranks);
  for (const auto& [what, hash] : setup_.identity) {
    const std::string its(from.empty() ? "" : from.text());
    if (its != what || from.get<std::uint64_t>() != hash) {
      return reason_of_other(rank, what);
    }
  }
  return {};
}

void RankGroup::greet(std::int32_t from, const std::string& hello) {
  Unpacker unpacker(hello);
  unpacker.get<std::int32_t>();
  const std::string packed(unpacker.text());
  Unpacker of(packed);
  infos_[static_cast<std::size_t>(from)] = unpack_info(of);
  {
    const std::lock_guard lock(mutex_);  // whoever waits says who is missing
    greeted_[static_cast<std::size_t>(from)] = true;
  }
  if (objection_.empty()) objection_ = reason_against(from, hello);
  if (std::ranges::find(greeted_, false) == greeted_.end()) {
    return objection_.empty() ? welcome() : refuse(objection_);
  }
  if (objection_.empty()) return;
  // Those who are about to come would find nobody, and not hear why.
  doubt_.expires_after(setup_.doubt);
  doubt_.async_wait([this](const boost::system::error_code& error) {
    if (!error) refuse(objection_);
  });
}

void RankGroup::welcome() {
  Packer packer;
  for (const RankInfo& each : infos_) packer.add_text(pack(each));
  const std::string table = packer.take();
  for (std::int32_t rank = 1; rank < setup_.ranks; ++rank) tell(rank, MessageKind::welcome, table);
  const std::lock_guard lock(mutex_);
  all_there_ = true;
  changed_.notify_all();
}

void RankGroup::take_welcome(const std::string& table) {
  Unpacker all(table);
  const std::lock_guard lock(mutex_);
  for (RankInfo& each : infos_) {
    Unpacker one(all.text());
    each = unpack_info(one);
  }
  all_there_ = true;
  changed_.notify_all();
}

void RankGroup::answer_ping(std::int32_t from, const std::string& ping) {
  tell(from, MessageKind::pong,
       Packer().add(Unpacker(ping).get<Time>()).add(std::chrono::steady_clock::now()).take());
}

void RankGroup::take_pong(const std::string& pong) {
  Unpacker from(pong);
  const auto sent = from.get<Time>(), there = from.get<Time>(),
             now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (now - sent < best_round_trip_) {
    best_round_trip_ = now - sent;
    infos_[static_cast<std::size_t>(setup_.rank)].clock_ahead = sent + (now - sent) / 2 - there;
  }
  ++pongs_;
  changed_.notify_all();
}

void RankGroup::tell_awaited(const std::string& what) {
  if (setup_.rank != 0) return;  // the first rank knows, and tells
  std::string missing;
  {
    const std::lock_guard lock(mutex_);
    missing = missing_ranks();
  }
  const std::string text = fmt::format("rank 0 has waited {:.0f} s for {}{}",
                                       to_seconds(setup_.before_note), what, missing);
  for (const auto& [rank, link] : links()) link->send(MessageKind::awaited, text);
  tandem::tell(setup_.on_notice, text);
}

std::string RankGroup::missing_ranks() const {
  std::string missing;
  for (std::size_t rank = 0; setup_.rank == 0 && rank < greeted_.size(); ++rank) {
    if (!greeted_[rank]) missing += fmt::format("{} {}", missing.empty() ? "" : ",", rank);
  }
  return missing.empty() ? missing
                         : fmt::format(": of {} these are missing:{}", setup_.ranks, missing);
}

RankGroup::Socket RankGroup::connect_channel(std::int32_t higher, std::uint64_t channel,
                                             Time deadline) {
  return connect_to_rank(info(higher).address, info(higher).port,
                         {.kind = ConnectionPurpose::Kind::channel,
                          .rank = setup_.rank,
                          .to = higher,
                          .channel = channel},
                         deadline);
}

RankGroup::Socket RankGroup::arrived_channel(std::int32_t lower, std::uint64_t channel,
                                             const std::string& name) {
  const std::pair key(lower, channel);
  wait([&] { return arrivals_.contains(key); }, fmt::format("the channel of {}", name),
       setup_.patience);
  const std::lock_guard lock(mutex_);
  return std::move(arrivals_.extract(key).mapped());
}

std::map<std::int32_t, std::shared_ptr<ControlLink>> RankGroup::link_to(
    const std::set<std::int32_t>& others,
    const std::function<ControlLink::Ears(std::int32_t, const Link&)>& ears) {
  constexpr auto kChannel = std::numeric_limits<std::uint64_t>::max();  // none of a program's
  const auto deadline = std::chrono::steady_clock::now() + setup_.patience;
  std::map<std::int32_t, Link> made;
  for (const std::int32_t other : others) {
    if (other > setup_.rank)
      made[other] = std::make_shared<ControlLink>(connect_channel(other, kChannel, deadline));
  }
  for (const std::int32_t other : others) {
    if (other < setup_.rank)
      made[other] = std::make_shared<ControlLink>(arrived_channel(other, kChannel, "copies"));
  }
  for (const auto& [other, link] : made)
    asio::post(context_,
               [link, heard = ears(other, link)]() mutable { link->start(std::move(heard)); });
  return made;
}

std::unique_ptr<MessageEngine> RankGroup::connect(const CommunicatorPlans& plans,
                                                  const DeviceRanks& rank_of) {
  if (setup_.mpi != nullptr) return connect_by_mpi(plans);
  auto engine =
      std::make_unique<TcpEngine>([this](const std::string& why) { blame(why); },
                                  [this](const std::string& why) { suspect(why); }, setup_.faults);
  const auto deadline = std::chrono::steady_clock::now() + setup_.patience;
  std::vector<std::pair<std::int32_t, std::size_t>> expected;
  for (std::size_t channel = 0; channel < plans.all().size(); ++channel) {
    std::vector<std::int32_t> members;
    for (const DeviceId device : plans.all()[channel].devices) members.push_back(rank_of[device]);
    std::ranges::sort(members);
    members.erase(std::unique(members.begin(), members.end()), members.end());
    if (std::ranges::find(members, setup_.rank) == members.end()) continue;
    for (const std::int32_t other : members) {
      if (other == setup_.rank) continue;
      if (other < setup_.rank) {
        expected.emplace_back(other, channel);
        continue;
      }
      engine->add(other, channel, plans.all()[channel].name,
                  connect_channel(other, channel, deadline));
    }
  }
  for (const auto& [other, channel] : expected) {
    const std::string& name = plans.all()[channel].name;
    engine->add(other, channel, name, arrived_channel(other, channel, name));
  }
  return engine;
}

std::unique_ptr<MessageEngine> RankGroup::connect_by_mpi(const CommunicatorPlans& plans) {
  MpiEngineSetup setup{.rank = setup_.rank, .ranks = setup_.ranks, .faults = setup_.faults};
  for (const CommunicatorPlan& plan : plans.all()) setup.channels.push_back(plan.name);
  setup.on_start = [this](const std::string& why) {
    const std::lock_guard lock(mutex_);
    mpi_started_ = why;
    changed_.notify_all();
  };
  setup.on_failure = [this](const std::string& why) { blame(why); };
  std::unique_ptr<MessageEngine> engine = setup_.mpi->make(std::move(setup));
  wait([this] { return mpi_started_.has_value(); }, "MPI to start", setup_.patience);
  const std::lock_guard lock(mutex_);
  const std::string why = *std::exchange(mpi_started_, std::nullopt);
  if (!why.empty()) throw DeviceError("transport mpi: " + why);
  return engine;
}

}  // namespace tandem
