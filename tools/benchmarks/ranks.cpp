// Ranks over this machine's loopback: what a hand-over takes, and what a pipeline of two ranks
// loses beside one of two threads. The ranks are threads of this process: their sockets are those
// of two.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include "core/lower/lower.h"
#include "core/memory/memory.h"
#include "executor/ranks/device_ranks.h"
#include "executor/ranks/frame.h"
#include "executor/ranks/rank_run.h"
#include "executor/train.h"
#include "tools/benchmarks/benchmark.h"
#include "tools/cli/notices.h"

namespace tandem::benchmarks {

namespace {

using boost::asio::ip::tcp;
using RankClock = std::chrono::steady_clock;

constexpr std::int64_t kRankSteps = 8, kFillingRankSteps = 2;
constexpr double kMostSlower = 1.02, kMostHandOver = 10e-6;
constexpr std::size_t kMiB = 1 << 20;

double median_of_ranks(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Two ends of a connection.
std::pair<tcp::socket, tcp::socket> socket_pair(boost::asio::io_context& context) {
  tcp::acceptor acceptor(context, {boost::asio::ip::address_v4::loopback(), std::uint16_t{0}});
  tcp::socket one(context), other(context);
  one.connect(acceptor.local_endpoint());
  acceptor.accept(other);
  return {std::move(one), std::move(other)};
}

/// The engines of two ranks, with so many lanes between them.
struct EnginePair {
  explicit EnginePair(std::size_t lanes) {
    boost::asio::io_context context;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      auto [one, other] = socket_pair(context);
      here.add(1, lane, "there", std::move(one));
      there.add(0, lane, "back", std::move(other));
    }
  }
  TcpEngine here{tools::print_note}, there{tools::print_note};
};

double rank_seconds_since(RankClock::time_point start) {
  return std::chrono::duration<double>(RankClock::now() - start).count();
}

/// Seconds one way: half of there and back, of messages of so many bytes. Who waits looks, as a
/// device with a core of its own does.
double hand_over_s(std::size_t bytes, int rounds) {
  EnginePair pair(1);
  std::vector<std::byte> out(bytes), in(bytes), echoed(bytes);
  std::vector<double> times;
  const auto pass = [](TcpEngine& engine, std::int32_t to, std::span<std::byte> sent,
                       std::span<std::byte> received, bool sends_first) {
    std::atomic<bool> is_here{false};
    if (sends_first) engine.send(to, 0, sent, [] {});
    engine.receive(to, 0, received, [&is_here](MessageEngine::Time) { is_here = true; });
    while (!is_here) std::this_thread::yield();
    if (!sends_first) engine.send(to, 0, received, [] {});
  };
  std::jthread echo([&] {
    for (int i = 0; i < rounds; ++i) pass(pair.there, 0, {}, echoed, false);
  });
  for (int i = 0; i < rounds; ++i) {
    const auto start = RankClock::now();
    pass(pair.here, 1, out, in, true);
    times.push_back(rank_seconds_since(start) / 2);
  }
  echo.join();
  return median_of_ranks(std::move(times));
}

/// The bound of that: the same bytes, and those of a frame's header, by two sockets and nothing
/// else. `looks`: who waits looks, and does not sleep.
double raw_hand_over_s(std::size_t bytes, int rounds, bool looks) {
  boost::asio::io_context context;
  auto [one, other] = socket_pair(context);
  for (tcp::socket* socket : {&one, &other}) {
    socket->set_option(tcp::no_delay(true));
    socket->non_blocking(looks);
  }
  const std::size_t frame = sizeof(FrameHeader) + bytes;
  const auto receive = [](tcp::socket& from, std::vector<std::byte>& into) {
    for (std::size_t arrived = 0; arrived < into.size();) {
      boost::system::error_code error;
      arrived += from.read_some(boost::asio::buffer(into) + arrived, error);
      if (error == boost::asio::error::would_block)
        std::this_thread::yield();
      else if (error)
        throw boost::system::system_error(error);
    }
  };
  std::jthread echo([&, &echoes = other] {
    std::vector<std::byte> frames(frame);
    for (int i = 0; i < rounds; ++i) {
      receive(echoes, frames);
      boost::asio::write(echoes, boost::asio::buffer(frames));
    }
  });
  std::vector<std::byte> frames(frame);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto start = RankClock::now();
    boost::asio::write(one, boost::asio::buffer(frames));
    receive(one, frames);
    times.push_back(rank_seconds_since(start) / 2);
  }
  return median_of_ranks(std::move(times));
}

/// A message that is sent, and the lane that takes it.
struct LaneMessage {
  std::size_t lane, bytes;
};

enum class Until { last_is_there, all_are_there };

/// Seconds from when the first one is sent, and the others behind it.
double together_s(const std::vector<LaneMessage>& messages, std::size_t lanes, Until until) {
  constexpr int kRounds = 1'000;
  EnginePair pair(lanes);
  std::vector<std::vector<std::byte>> out, in;
  for (const LaneMessage& message : messages) {
    out.emplace_back(message.bytes);
    in.emplace_back(message.bytes);
  }
  std::vector<RankClock::time_point> arrivals(messages.size());
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    std::atomic<std::size_t> ended{0};
    for (std::size_t k = 0; k < messages.size(); ++k) {
      pair.there.receive(0, messages[k].lane, in[k], [&, k](MessageEngine::Time) {
        arrivals[k] = RankClock::now();
        ++ended;
      });
    }
    const auto start = RankClock::now();
    for (std::size_t k = 0; k < messages.size(); ++k)
      pair.here.send(1, messages[k].lane, out[k], [&ended] { ++ended; });
    while (ended < 2 * messages.size()) std::this_thread::yield();
    const auto end = until == Until::last_is_there ? arrivals.back() : std::ranges::max(arrivals);
    times.push_back(std::chrono::duration<double>(end - start).count());
  }
  return median_of_ranks(std::move(times));
}

Section hand_over_section() {
  Section section{.title = "Messages over loopback, one way, median", .rows = {}};
  const auto add = [&section](const char* what, double seconds) {
    section.rows.push_back({.what = what, .value = seconds, .unit = "s"});
  };
  constexpr int kRounds = 20'000;
  add("64 bytes by two sockets that look", raw_hand_over_s(64, kRounds, true));
  add("64 bytes by two sockets that sleep", raw_hand_over_s(64, kRounds, false));
  section.rows.push_back({.what = "64 bytes",
                          .value = hand_over_s(64, kRounds),
                          .unit = "s",
                          .floor = kMostHandOver,
                          .at_most = true});
  add("1 MiB", hand_over_s(kMiB, 2'000));
  return section;
}

/// What decides that lanes have a connection each.
Section connection_section() {
  Section section{.title = "Lanes over one connection and over one each, median", .rows = {}};
  const auto add = [&section](const char* what, double seconds) {
    section.rows.push_back({.what = what, .value = seconds, .unit = "s"});
  };
  add("64 bytes behind 1 MiB, one connection",
      together_s({{0, kMiB}, {0, 64}}, 1, Until::last_is_there));
  add("64 bytes beside 1 MiB, one each", together_s({{0, kMiB}, {1, 64}}, 2, Until::last_is_there));
  const auto four = [](bool each) {
    std::vector<LaneMessage> messages;
    for (std::size_t i = 0; i < 4; ++i) messages.push_back({each ? i : 0, kMiB});
    return together_s(messages, each ? 4 : 1, Until::all_are_there);
  };
  add("4 times 1 MiB, one connection", four(false));
  add("4 times 1 MiB, one each", four(true));
  return section;
}

TrainingSetup<float> rank_setup(const Program& program, const Data& data, const ModelSpec& model) {
  TrainingSetup<float> setup;
  setup.stage = {.model = model, .optimizer = {}, .seed = 1, .data = &data};
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  setup.layers = {{0, layers / 2}, {layers / 2, layers}};
  setup.slots = count_slots(program);
  setup.batches = kRankSteps;
  setup.keep_timeline = false;
  setup.on_stuck = tools::print_last_error;
  return setup;
}

/// Seconds of each step after the first ones.
std::vector<double> rank_step_times(const Program& program, TrainingSetup<float> setup) {
  std::vector<double> times;
  Duration last{};
  setup.on_step = [&](const StepReport& step) {
    if (step.batch >= kFillingRankSteps) times.push_back(to_seconds(step.since_start - last));
    last = step.since_start;
  };
  train_on_cpu<float>(program, setup);
  return times;
}

std::vector<double> step_times_over_ranks(const Program& program,
                                          const TrainingSetup<float>& setup) {
  std::uint16_t port = 0;
  {
    boost::asio::io_context context;
    port = tcp::acceptor(context, {boost::asio::ip::address_v4::loopback(), std::uint16_t{0}})
               .local_endpoint()
               .port();
  }
  const auto run = [&](std::int32_t rank) {
    RankGroup group({.rank = rank, .ranks = 2, .rendezvous_port = port, .secret = "benchmark"});
    const DeviceRanks of = even_device_ranks(2, 2);
    RankRun others(group, CommunicatorPlans(program, 1, of), of);
    TrainingSetup<float> mine = setup;
    mine.others = &others;
    return rank_step_times(program, mine);
  };
  auto other = std::async(std::launch::async, run, 1);
  std::vector<double> times = run(0);
  other.get();
  return times;
}

}  // namespace

std::vector<Section> bench_ranks(const Settings& settings) {
  Section pipelines{.title =
                        "Two stages: two ranks over loopback beside two threads; 6 layers, "
                        "width 384, sequence 256, 8 microbatches",
                    .rows = {}};
  const ModelSpec model{.name = "bench",
                        .blocks = 6,
                        .width = 384,
                        .heads = 6,
                        .sequence = 256,
                        .vocabulary = 256,
                        .tied = true};
  for (const char* schedule : {"2bw", "1f1b"}) {
    const Program program = lower(make_schedule(
        find_schedule(schedule), {.devices = 2, .microbatches = 8, .tied_embeddings = true}));
    const Data data(model, 1, 1);
    const TrainingSetup<float> setup = rank_setup(program, data, model);
    std::vector<double> threads, ranks;
    for (int repetition = 0; repetition < settings.repetitions; ++repetition) {
      for (const double time : rank_step_times(program, setup)) threads.push_back(time);
      for (const double time : step_times_over_ranks(program, setup)) ranks.push_back(time);
    }
    const double of_threads = median_of_ranks(threads);
    pipelines.rows.push_back({.what = fmt::format("{}, step of two threads", schedule),
                              .value = of_threads * 1e3,
                              .unit = "ms"});
    pipelines.rows.push_back({.what = fmt::format("{}, step of two ranks over it", schedule),
                              .value = median_of_ranks(ranks) / of_threads,
                              .unit = "",
                              .floor = kMostSlower,
                              .at_most = true});
  }
  return {hand_over_section(), connection_section(), pipelines};
}

}  // namespace tandem::benchmarks
