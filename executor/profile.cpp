#include "executor/profile.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/lower.h"
#include "core/schedule.h"
#include "executor/cpu/backend.h"
#include "executor/cpu/products.h"
#include "executor/profile_passes.h"
#include "executor/train.h"

namespace tandem {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int32_t kPassesAnUpdate = 4;  // of two microbatches each

/// By layer kind and function: the mean time of each device in each visit.
using Means = std::map<LayerKind, std::array<std::vector<Duration>, kMeasured>>;

void append(const std::vector<Tallies>& devices, Means& all) {
  for (const Tallies& device : devices) {
    for (const auto& [kind, tallies] : device) {
      for (std::size_t i = 0; i < kMeasured; ++i) {
        if (tallies[i].count > 0) all[kind][i].push_back(tallies[i].sum / tallies[i].count);
      }
    }
  }
}

Duration median(std::vector<Duration> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Interrupted("interrupted: no profile was written");
}

/// One visit to a microbatch size: all devices compute at once.
class DevicesAtOnce {
 public:
  DevicesAtOnce(const ProfileRequest& request, std::int32_t microbatch_size,
                std::function<void()> tick)
      : request_(request),
        microbatch_size_(microbatch_size),
        tick_(std::move(tick)),
        data_(request.model, microbatch_size, 1),
        together_(request.busy_devices, Round{this}) {}

  /// What each device measured.
  std::vector<Tallies> measure() {
    start_and_join();
    if (failure_) std::rethrow_exception(failure_);
    check_stop(request_.stop);
    return std::move(all_);
  }

 private:
  /// Between two rounds: whether there is another is decided once, for all devices alike.
  struct Round {
    DevicesAtOnce* devices;
    void operator()() noexcept {
      devices->ended_ = devices->request_.stop.stop_requested() || devices->failed_;
    }
  };

  void start_and_join() {
    std::vector<std::jthread> threads;
    try {
      for (std::int32_t device = 0; device < request_.busy_devices; ++device) {
        threads.emplace_back([this, device] { run(device); });
      }
    } catch (...) {
      fail();
      // Those that run wait for those that could not be started.
      const auto missing = request_.busy_devices - static_cast<std::int32_t>(threads.size());
      for (std::int32_t i = 0; i < missing; ++i) together_.arrive_and_drop();
    }
  }

  /// Leaves only between rounds, and all devices after the same one: nobody may wait forever.
  void run(std::int32_t device) {
    std::unique_ptr<ModelPasses> passes;
    Tallies mine;
    const auto guarded = [this](const auto& work) {
      try {
        work();
      } catch (...) {
        fail();
      }
    };
    guarded([&] {
      passes = std::make_unique<ModelPasses>(request_.model, microbatch_size_, request_.optimizer,
                                             data_);
    });
    for (std::int32_t i = -1; i < request_.repetitions; ++i) {  // the first untimed
      together_.arrive_and_wait();
      if (ended_) break;
      guarded([&] {
        passes->pass(i % kPassesAnUpdate == 0, i < 0 ? nullptr : &mine);
        if (device == 0 && i >= 0) tick_();
      });
    }
    guarded([&] { add(mine); });
  }

  void add(const Tallies& mine) {
    const std::lock_guard lock(mutex_);
    all_.push_back(mine);
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    failed_ = true;
  }

  const ProfileRequest& request_;
  std::int32_t microbatch_size_;
  std::function<void()> tick_;
  Data data_;
  bool ended_ = false;  // written between rounds only
  std::barrier<Round> together_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first
  std::vector<Tallies> all_;
};

/// By microbatch size. Each size is measured in several visits, in turn with the others: a machine
/// that is slower for some seconds is so for all of them. A visit is about as long as a step of
/// training, and what counts of it is its mean, for that is what it has in common with a step: the
/// median of single layers would know nothing of the tenths of a second in which a shared machine
/// is slower, of which every step has its share.
std::map<std::int32_t, Means> measure_layers(const ProfileRequest& request,
                                             const std::function<void()>& tick) {
  constexpr std::int32_t kFewestVisits = 5, kPassesAVisit = 5;
  const std::int32_t visits = std::max(kFewestVisits, request.repetitions / kPassesAVisit);
  std::map<std::int32_t, Means> all;
  std::int32_t done = 0;
  std::size_t again = static_cast<std::size_t>(visits) * request.microbatch_sizes.size();
  for (std::int32_t visit = 0; visit < visits; ++visit) {
    ProfileRequest part = request;
    part.repetitions = (request.repetitions - done) / (visits - visit);
    done += part.repetitions;
    if (part.repetitions == 0) continue;
    for (const std::int32_t size : request.microbatch_sizes) {
      std::vector<Tallies> measured = DevicesAtOnce(part, size, tick).measure();
      for (; request.disturbed && request.disturbed() && again > 0; --again) {
        measured = DevicesAtOnce(part, size, [] {}).measure();
      }
      append(measured, all[size]);
    }
  }
  return all;
}

/// One way, from the start of the copy to the other side running: half of a round trip between two
/// threads.
Duration measure_transfer(Bytes bytes, std::int32_t repetitions) {
  const std::int64_t elements = (bytes + 3) / 4;
  cpu::Buffer<float> here(elements), there(elements);
  Doorbell ping, pong;
  const auto rounds = static_cast<std::uint32_t>(repetitions);
  std::jthread other([&] {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      while (ping.rings() <= i) ping.wait_beyond(i, cpu::kSpin);
      std::copy(there.elements().begin(), there.elements().end(), here.elements().begin());
      pong.ring();
    }
  });
  std::vector<Duration> times;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    std::copy(here.elements().begin(), here.elements().end(), there.elements().begin());
    ping.ring();
    while (pong.rings() <= i) pong.wait_beyond(i, cpu::kSpin);
    times.push_back((Clock::now() - start) / 2);
  }
  return median(std::move(times));
}

/// What the executor adds to each op: a run of a model that computes next to nothing.
Duration measure_overhead() {
  const ModelSpec tiny{.name = "overhead",
                       .architecture = Architecture::linear,
                       .blocks = 1,
                       .width = 1,
                       .heads = 1,
                       .sequence = 1,
                       .vocabulary = 256,
                       .tied = false};
  constexpr std::int32_t kMicrobatches = 64;
  constexpr std::int64_t kBatches = 40;
  const Program program = lower(make_schedule(
      find_schedule("1f1b"), {.devices = 1, .microbatches = kMicrobatches, .replicas = {}}));
  const Data data(tiny, 1, 1);
  TrainingSetup<float> setup;
  setup.stage = {.model = tiny,
                 .microbatch_size = 1,
                 .optimizer = {.kind = OptimizerKind::sgd},
                 .seed = 1,
                 .data = &data};
  setup.layers = {{0, static_cast<std::int32_t>(layers_of(tiny).size())}};
  setup.slots = count_slots(program);
  setup.batches = kBatches;
  const std::vector<Span> spans = train_on_cpu<float>(program, setup).timelines.front().spans;
  return (spans.back().end - spans.front().start) / static_cast<std::int64_t>(spans.size());
}

}  // namespace

Profile measure_profile(const ProfileRequest& request) {
  check_trainable(request.model);
  Profile profile;
  profile.backend = "cpu";
  profile.kernels = cpu::describe(cpu::products().engine);
  profile.model = request.model;
  profile.optimizer = request.optimizer;
  profile.busy_devices = request.busy_devices;
  const auto all = static_cast<std::int32_t>(request.microbatch_sizes.size()) * request.repetitions;
  std::int32_t done = 0;
  const auto tick = [&] {
    ++done;
    if (request.on_progress) request.on_progress(done, all);
  };
  std::vector<Bytes> sizes{
      4096, 2 * static_cast<Bytes>(request.model.vocabulary) * request.model.width * 4};
  for (const auto& [size, means] : measure_layers(request, tick)) {
    for (const auto& [kind, times] : means) {
      profile.layers.push_back(
          {.kind = kind,
           .microbatch_size = size,
           .forward = median(times[index(Measured::forward)]),
           .backward_input = median(times[index(Measured::backward_input)]),
           .backward_weight = median(times[index(Measured::backward_weight)]),
           .backward = median(times[index(Measured::backward)]),
           .update = median(times[index(Measured::update)]),
           .selective_recompute = median(times[index(Measured::selective_recompute)])});
    }
    sizes.push_back(boundary_bytes(request.model, size));
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const Bytes bytes : sizes) {
    check_stop(request.stop);
    profile.transfers.push_back({bytes, measure_transfer(bytes, 200)});
  }
  profile.instruction_overhead = measure_overhead();
  return profile;
}

}  // namespace tandem
