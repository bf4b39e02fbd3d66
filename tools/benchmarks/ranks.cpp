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
#include <fmt/format.h>

#include "core/lower/lower.h"
#include "core/memory/memory.h"
#include "executor/ranks/device_ranks.h"
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

/// Seconds one way: half of there and back, of messages of so many bytes. Who waits looks, as a
/// device with a core of its own does.
double hand_over_s(std::size_t bytes, int rounds) {
  boost::asio::io_context context;
  auto [one, other] = socket_pair(context);
  TcpEngine here(tools::print_note), there(tools::print_note);
  here.add(1, 0, "there", std::move(one));
  there.add(0, 0, "back", std::move(other));
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
    for (int i = 0; i < rounds; ++i) pass(there, 0, {}, echoed, false);
  });
  for (int i = 0; i < rounds; ++i) {
    const auto start = RankClock::now();
    pass(here, 1, out, in, true);
    times.push_back(std::chrono::duration<double>(RankClock::now() - start).count() / 2);
  }
  echo.join();
  return median_of_ranks(std::move(times));
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
  Section hand_overs{.title = "Messages over loopback, one way, median", .rows = {}};
  hand_overs.rows.push_back({.what = "64 bytes",
                             .value = hand_over_s(64, 20'000),
                             .unit = "s",
                             .floor = kMostHandOver,
                             .at_most = true});
  hand_overs.rows.push_back({.what = "1 MiB", .value = hand_over_s(kMiB, 2'000), .unit = "s"});
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
  return {hand_overs, pipelines};
}

}  // namespace tandem::benchmarks
