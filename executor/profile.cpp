#include "executor/profile.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
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
#include "executor/train.h"

namespace tandem {

namespace {

using Clock = std::chrono::steady_clock;
using Kernel = cpu::Kernels<float>;

enum class Measured : std::uint8_t {
  forward,
  backward,
  backward_input,
  backward_weight,
  selective_recompute,
  update
};
constexpr std::size_t kMeasured = 6;

/// Times by layer kind and function, from all repetitions of all threads.
using Samples = std::map<LayerKind, std::array<std::vector<Duration>, kMeasured>>;

void append(const Samples& more, Samples& all) {
  for (const auto& [kind, times] : more) {
    for (std::size_t i = 0; i < kMeasured; ++i) {
      all[kind][i].insert(all[kind][i].end(), times[i].begin(), times[i].end());
    }
  }
}

Duration median(std::vector<Duration> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// One layer as a stage of its own, with the memory of one microbatch.
struct TimedLayer {
  TimedLayer(const ModelSpec& model, std::int32_t layer, std::int32_t microbatch_size,
             OptimizerKind optimizer)
      : kind(layers_of(model)[static_cast<std::size_t>(layer)]),
        stage(model, {layer, layer + 1}, microbatch_size, 1.0),
        dropping(LayerShape{.model = model,
                            .microbatch_size = microbatch_size,
                            .recompute = Recompute::selective},
                 layer),
        weights(stage.sizes().parameters),
        next_weights(stage.sizes().parameters),
        gradients(stage.sizes().parameters),
        state(stage.sizes().parameters * optimizer_states(optimizer)),
        stash(stage.sizes().stash),
        input(stage.sizes().boundary),
        output(stage.sizes().boundary),
        output_gradient(stage.sizes().boundary),
        input_gradient(stage.sizes().boundary),
        scratch(std::max(
            {stage.sizes().scratch, stage.sizes().kept_gradients, dropping.scratch_size()})) {
    stage.initialise(weights.elements(), 1);
    // Numbers of the size that training sees: zeros would be quicker for some processors.
    for (cpu::Buffer<float>* buffer : {&input, &output_gradient}) {
      float value = 0.3F;
      for (float& element : buffer->elements()) element = (value = 1.0F - value * 1.7F * value);
    }
  }

  LayerKind kind;
  Stage<Kernel> stage;
  AnyLayer<Kernel> dropping;  // the same layer with selective recomputation
  cpu::Buffer<float> weights, next_weights, gradients, state, stash, input, output, output_gradient,
      input_gradient, scratch;
};

/// One device's share of a measurement: passes forward and back over its own copy of the model.
class ModelPasses {
 public:
  ModelPasses(const ProfileRequest& request, std::int32_t microbatch_size, const Data& data)
      : optimizer_{.kind = request.optimizer} {
    const auto layers = static_cast<std::int32_t>(layers_of(request.model).size());
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      layers_.push_back(
          std::make_unique<TimedLayer>(request.model, layer, microbatch_size, request.optimizer));
    }
    data.fill(0, sample_);
  }

  void pass(Samples* samples) {
    for (const auto& layer : layers_) {
      timed(samples, *layer, Measured::forward, [&] {
        layer->stage.forward(
            kernels_,
            {.weights = layer->weights.elements(),
             .input = input_of(*layer),
             .sample = &sample_,
             .stash = layer->stash.elements(),
             .output = layer->stage.is_last() ? std::span<float>{} : layer->output.elements()});
      });
    }
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      const BackwardSpans<float> spans = backward_spans(**layer);
      const Stage<Kernel>& stage = (*layer)->stage;
      timed(samples, **layer, Measured::backward,
            [&] { stage.backward(kernels_, with_scratch(spans, stage.sizes().scratch)); });
      const BackwardSpans<float> kept = with_scratch(spans, stage.sizes().kept_gradients);
      timed(samples, **layer, Measured::backward_input,
            [&] { stage.backward_input(kernels_, kept); });
      timed(samples, **layer, Measured::backward_weight,
            [&] { stage.backward_weight(kernels_, kept); });
      time_recompute(samples, **layer);
    }
    // Into another version, as those schedules do that update often: in place is a little quicker.
    for (const auto& layer : layers_) {
      timed(samples, *layer, Measured::update, [&] {
        tandem::update(kernels_, optimizer_, OptimizerStep{}, layer->stage.parameters(),
                       UpdateSpans<float>{.weights = layer->weights.elements(),
                                          .gradients = layer->gradients.elements(),
                                          .state = layer->state.elements(),
                                          .weights_out = layer->next_weights.elements()});
        kernels_.fill(layer->gradients.elements(), 0.0);
      });
      std::swap(layer->weights, layer->next_weights);
    }
  }

 private:
  void time_recompute(Samples* samples, TimedLayer& layer) {
    const AnyLayer<Kernel>& dropping = layer.dropping;
    if (dropping.scratch_size() == layer.stage.sizes().scratch) return;  // it drops nothing
    BackwardSpans<float> spans = with_scratch(backward_spans(layer), dropping.scratch_size());
    // What is read of it lies elsewhere than forward put it, but is as many numbers of a like size.
    spans.stash = spans.stash.first(static_cast<std::size_t>(dropping.stash_size()));
    timed(samples, layer, Measured::selective_recompute,
          [&] { dropping.recompute(kernels_, spans); });
  }

  static std::span<const float> input_of(TimedLayer& layer) {
    return layer.stage.is_first() ? std::span<const float>{} : layer.input.elements();
  }

  static BackwardSpans<float> backward_spans(TimedLayer& layer) {
    BackwardSpans<float> spans{.weights = layer.weights.elements(),
                               .input = input_of(layer),
                               .stash = layer.stash.elements(),
                               .output_gradient = {},
                               .scratch = {},
                               .input_gradient = {},
                               .gradients = layer.gradients.elements()};
    if (!layer.stage.is_last()) spans.output_gradient = layer.output_gradient.elements();
    if (!layer.stage.is_first()) spans.input_gradient = layer.input_gradient.elements();
    spans.scratch = layer.scratch.elements();
    return spans;
  }

  static BackwardSpans<float> with_scratch(BackwardSpans<float> spans, std::int64_t size) {
    spans.scratch = spans.scratch.first(static_cast<std::size_t>(size));
    return spans;
  }

  template <class Work>
  static void timed(Samples* samples, const TimedLayer& layer, Measured what, Work work) {
    const Clock::time_point start = Clock::now();
    work();
    if (samples != nullptr) (*samples)[layer.kind][index(what)].push_back(Clock::now() - start);
  }

  OptimizerConfig optimizer_;
  std::vector<std::unique_ptr<TimedLayer>> layers_;
  Sample<float> sample_;
  Kernel kernels_;
};

void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Interrupted("interrupted: no profile was written");
}

/// All devices compute at once; the samples of all of them count.
class DevicesAtOnce {
 public:
  DevicesAtOnce(const ProfileRequest& request, std::int32_t microbatch_size,
                std::function<void()> tick)
      : request_(request),
        microbatch_size_(microbatch_size),
        tick_(std::move(tick)),
        data_(request.model, microbatch_size, 1),
        together_(request.busy_devices, Round{this}) {}

  Samples measure() {
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
    Samples mine;
    const auto guarded = [this](const auto& work) {
      try {
        work();
      } catch (...) {
        fail();
      }
    };
    guarded([&] { passes = std::make_unique<ModelPasses>(request_, microbatch_size_, data_); });
    const std::int32_t untimed = request_.repetitions / 10 + 1;
    for (std::int32_t i = -untimed; i < request_.repetitions; ++i) {
      together_.arrive_and_wait();
      if (ended_) break;
      guarded([&] {
        passes->pass(i < 0 ? nullptr : &mine);
        if (device == 0 && i >= 0) tick_();
      });
    }
    guarded([&] { add(mine); });
  }

  void add(const Samples& mine) {
    const std::lock_guard lock(mutex_);
    append(mine, all_);
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
  Samples all_;
};

/// By microbatch size. Each size is measured in several visits, in turn with the others: a machine
/// that is slower for some seconds is so for all of them.
std::map<std::int32_t, Samples> measure_layers(const ProfileRequest& request,
                                               const std::function<void()>& tick) {
  constexpr std::int32_t kVisits = 5;
  std::map<std::int32_t, Samples> all;
  for (std::int32_t visit = 0; visit < kVisits; ++visit) {
    ProfileRequest part = request;
    part.repetitions =
        request.repetitions * (visit + 1) / kVisits - request.repetitions * visit / kVisits;
    if (part.repetitions == 0) continue;
    for (const std::int32_t size : request.microbatch_sizes) {
      append(DevicesAtOnce(part, size, tick).measure(), all[size]);
    }
  }
  return all;
}

/// One way, from the start of the copy to the other side running: half of a round trip between two
/// threads.
Duration measure_transfer(Bytes bytes, std::int32_t repetitions) {
  const std::int64_t elements = (bytes + 3) / 4;
  cpu::Buffer<float> here(elements), there(elements);
  cpu::Doorbell ping, pong;
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
  for (const auto& [size, samples] : measure_layers(request, tick)) {
    for (const auto& [kind, times] : samples) {
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
