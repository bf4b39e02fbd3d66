// Soak: trains random small plans under random delays and faults, for as long as asked, and holds
// each run to what the executor promises: bits as the serial reference's, memory as planned, a
// clean end with device and op named when something throws, no hang, no leak. Deterministic by
// seed; each run is named by its own seed, which repeats it alone.
//
//   tandem_soak [--minutes M | --seconds S] [--seed N] [--only RUN]

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/memory/memory.h"
#include "core/memory/storage.h"
#include "tests/support/sanitizers.h"
#include "tests/support/training.h"

namespace tandem::testing {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kLongestRun = 120;  // seconds, of runs that take milliseconds: beyond it, it hangs
constexpr std::int64_t kWarmUpRuns = 200;
// Sanitizers keep freed memory and histories.
constexpr std::int64_t kMostGrowthKiB = kSanitized ? 2'000'000 : 16 * 1024;

enum class Fault { none, delays, throws, interrupted };

struct Draw {
  TrainingCase test;
  Fault fault = Fault::none;
  std::uint64_t seed = 0;
  std::string text() const {
    constexpr const char* kFaults[] = {"no fault", "delays", "a throw", "an interrupt"};
    constexpr const char* kClips[] = {"unclipped", "clipped", "clipped per stage"};
    return fmt::format(
        "run {}: {} on {} x {} devices, {} chunks, replicas [{}], {} microbatches of {}, {} "
        "batches, recompute {}, {}, {}",
        seed, test.schedule, test.width, test.devices, test.chunks, fmt::join(test.replicas, " "),
        test.microbatches, test.microbatch_size, test.batches, name(test.recompute),
        kClips[static_cast<int>(test.guard.clip)], kFaults[static_cast<int>(fault)]);
  }
};

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

/// What only some schedules have. Layers suffice for three chunks on four devices.
void draw_shape(std::mt19937_64& random, TrainingCase& test) {
  const ScheduleTraits& traits = find_schedule(test.schedule);
  if (traits.replicas_per_device == 0) test.chunks = static_cast<std::uint16_t>(1 + random() % 3);
  if (traits.replicas_per_device != 1) test.model.blocks = 5;
  if (test.schedule == "2bw") test.extra_in_flight = static_cast<std::int32_t>(random() % 3);
  if (test.schedule == "chimera") test.directions = pick<std::uint16_t>(random, {2, 2, 4});
  if (test.schedule != "pipedream") return;
  test.vertical_sync = random() % 4 == 0;
  if (random() % 2 == 0) {
    test.replicas = pick<std::vector<std::uint16_t>>(random, {{2, 1}, {1, 2}, {3, 1}, {2, 1, 1}});
    test.devices = 0;
    for (const std::uint16_t replicas : test.replicas) test.devices += replicas;
  }
}

/// Plans that the schedule can't serve are drawn again.
Draw draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> names;
  for (const ScheduleTraits& row : schedules()) names.emplace_back(row.name);
  while (true) {
    Draw result{.test = {}, .fault = Fault::none, .seed = seed};
    TrainingCase& test = result.test;
    test.schedule = names[random() % names.size()];
    test.devices = pick<std::uint16_t>(random, {1, 2, 3, 4});
    test.microbatches = static_cast<std::int32_t>(1 + random() % 9);
    test.microbatch_size = pick(random, {1, 2});
    test.batches = static_cast<std::int64_t>(1 + random() % 6);
    test.recompute = pick(random, {Recompute::none, Recompute::selective, Recompute::stage});
    test.model.tied = random() % 2 == 0;
    test.optimizer.kind = pick(random, {OptimizerKind::sgd, OptimizerKind::momentum,
                                        OptimizerKind::adamw, OptimizerKind::nadam,
                                        OptimizerKind::muon});
    if (test.semantics() == WeightSemantics::delayed_by_one) {
      test.optimizer.correction =
          pick(random, {DelayCorrection::none, DelayCorrection::error_feedback});
    }
    test.seed = random();
    result.fault = pick(
        random, {Fault::none, Fault::delays, Fault::delays, Fault::throws, Fault::interrupted});
    test.width = pick<std::uint16_t>(random, {1, 1, 2, 3});
    test.guard.clip =
        pick(random, {ClipScope::none, ClipScope::none, ClipScope::global, ClipScope::per_stage});
    test.guard.most_norm = 0.25;
    if (test.guard.clip == ClipScope::per_stage) test.model.tied = false;  // its ends would differ
    draw_shape(random, test);
    try {
      test.make();
      return result;
    } catch (const InputError&) {
    }
  }
}

[[noreturn]] void fail(const Draw& draw, const std::string& what) {
  std::cerr << "\n" << draw.text() << ": " << what << std::endl;
  std::_Exit(1);
}

/// Ends the process when a run does not end. It counts seconds that it saw pass: those in which the
/// whole process was stopped are nobody's fault.
class HangAlarm {
 public:
  explicit HangAlarm(const Draw& draw)
      : thread_([this, &draw](const std::stop_token& done) {
          std::unique_lock lock(mutex_);
          for (int second = 0; second < kLongestRun; ++second) {
            ended_.wait_for(lock, done, 1s, [] { return false; });
            if (done.stop_requested()) return;
          }
          fail(draw, "hangs");
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

/// Throws at the n-th piece of work of the whole run, whichever device comes to it.
std::function<void(DeviceId, Instance)> throw_at(std::int64_t n, std::atomic<std::int64_t>& count) {
  return [n, &count](DeviceId, Instance) {
    if (count.fetch_add(1) == n) throw DeviceError("planted by the soak");
  };
}

void expect_as_reference(const Draw& draw, const TrainingReport<float>& report) {
  const TrainingCase& test = draw.test;
  const Data data = data_of(test);
  Reference<cpu::Kernels<float>> reference(test.model, reference_config(test, test.semantics()),
                                           data);
  std::vector<double> losses;
  for (std::int64_t batch = 0; batch < test.batches; ++batch) {
    const auto& state = reference.step();
    losses.insert(losses.end(), state.losses.begin(), state.losses.end());
  }
  if (losses != report.losses) fail(draw, "losses differ from the reference's");
  for (const NamedTensor<float>& tensor : report.weights) {
    if (reference.state().weights.at(tensor.name) != tensor.values)
      fail(draw, tensor.name + " differs from the reference's");
  }
}

void expect_planned_memory(const Draw& draw, const Program& program, const SlotCounts& slots,
                           const TrainingReport<float>& report) {
  Table<ReplicaId, StageBytes> bytes;
  const auto layers = even_stages(draw.test.model, program.placement().stages());
  for (const ReplicaId replica : ids(program.placement().stage)) {
    bytes.push_back(stage_bytes(draw.test.model, layers[index(program.placement().stage[replica])],
                                draw.test.microbatch_size, draw.test.optimizer.optimizer(),
                                draw.test.recompute));
  }
  const auto planned = memory_by_class(program, slots, bytes);
  for (std::size_t i = 0; i < report.high_water.size(); ++i) {
    const auto held = report.high_water[id_at<DeviceId>(i)];
    if (held != planned[id_at<DeviceId>(i % planned.size())])
      fail(draw, fmt::format("device {} did not hold what was planned", i));
  }
}

void run(const Draw& draw) {
  const HangAlarm alarm(draw);
  const TrainingCase& test = draw.test;
  const Program program = lower(test.make());
  const Data data = data_of(test);
  TrainingSetup<float> setup = setup_of<float>(test, program, data);
  std::mt19937_64 random(draw.seed ^ 0x9e3779b97f4a7c15ull);
  std::atomic<std::int64_t> work = 0;
  std::stop_source interrupt;
  std::jthread interrupter;
  if (draw.fault == Fault::delays) setup.before_work = seeded_delays(draw.seed, 500us);
  if (draw.fault == Fault::throws) setup.before_work = throw_at(random() % 40, work);
  if (draw.fault == Fault::interrupted) {
    setup.stop = interrupt.get_token();
    setup.before_work = seeded_delays(draw.seed, 300us);
    interrupter = std::jthread([&interrupt, wait = random() % 3000] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      interrupt.request_stop();
    });
  }
  try {
    const TrainingReport<float> report = train_on_cpu<float>(program, setup);
    if (report.interrupted) return;
    expect_as_reference(draw, report);
    // A slot counts from its first use: short runs don't come to use them all.
    const bool fills = test.batches * test.microbatches >= 3 * std::int64_t{test.devices};
    if (test.batches >= 3 && fills) expect_planned_memory(draw, program, setup.slots, report);
  } catch (const DeviceError& error) {
    const std::string what = error.what();
    const bool named = what.find("device ") != std::string::npos &&
                       what.find("planted by the soak") != std::string::npos;
    if (draw.fault != Fault::throws || !named) fail(draw, "unexpected: " + what);
  }
}

std::int64_t status_field(const char* name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name, 0) == 0) return std::atoll(line.c_str() + std::strlen(name) + 1);
  }
  return 0;
}

/// Threads of the process while nothing runs: sanitizers start one with the first thread.
std::int64_t threads_at_rest() {
  std::jthread([] {}).join();
  std::this_thread::sleep_for(100ms);
  return status_field("Threads");
}

/// A joined thread stays in the count until the kernel has put it away.
bool threads_end(std::int64_t at_rest) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (status_field("Threads") <= at_rest) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

struct Request {
  std::chrono::seconds time = 60s;
  std::uint64_t seed = 1;
  std::optional<std::uint64_t> only;
};

Request parse(int count, char** words) {
  Request request;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    const auto number = std::strtoull(words[i + 1], nullptr, 10);
    if (name == "--minutes")
      request.time = std::chrono::minutes(number);
    else if (name == "--seconds")
      request.time = std::chrono::seconds(number);
    else if (name == "--seed")
      request.seed = number;
    else if (name == "--only")
      request.only = number;
    else {
      std::cerr << "usage: tandem_soak [--minutes M | --seconds S] [--seed N] [--only RUN]\n";
      std::exit(2);
    }
  }
  return request;
}

int soak(const Request& request) {
  if (request.only) {
    const Draw only = draw(*request.only);
    std::cout << only.text() << std::endl;
    run(only);
    return 0;
  }
  const std::int64_t at_rest = threads_at_rest();
  const auto start = Clock::now();
  auto shown = start;
  std::int64_t runs = 0, resident_early = 0;
  std::array<std::int64_t, 4> by_fault{};
  for (std::uint64_t seed = request.seed * 1'000'000'000u; Clock::now() - start < request.time;
       ++seed, ++runs) {
    const Draw next = draw(seed);
    run(next);
    ++by_fault[static_cast<std::size_t>(next.fault)];
    if (runs == kWarmUpRuns) resident_early = status_field("VmRSS");
    if (runs > kWarmUpRuns && status_field("VmRSS") > resident_early + kMostGrowthKiB)
      fail(next, fmt::format("resident memory grew from {} to {} KiB", resident_early,
                             status_field("VmRSS")));
    if (!threads_end(at_rest)) fail(next, "a thread is left");
    if (Clock::now() - shown < 60s) continue;
    shown = Clock::now();
    fmt::print("{:>5} min  {:>8} runs  {} KiB resident ({} after {} runs)\n",
               std::chrono::duration_cast<std::chrono::minutes>(shown - start).count(), runs,
               status_field("VmRSS"), resident_early, kWarmUpRuns);
    std::fflush(stdout);
  }
  fmt::print(
      "{} runs: {} undisturbed, {} delayed, {} with a throw, {} interrupted; no difference, "
      "no hang, {} KiB resident after {} runs, {} KiB at the end\n",
      runs, by_fault[0], by_fault[1], by_fault[2], by_fault[3], resident_early, kWarmUpRuns,
      status_field("VmRSS"));
  return 0;
}

}  // namespace
}  // namespace tandem::testing

int main(int count, char** words) {
  return tandem::testing::soak(tandem::testing::parse(count, words));
}
