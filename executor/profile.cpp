#include "executor/profile.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "core/lower.h"
#include "core/schedule.h"
#include "executor/cpu/backend.h"
#include "executor/train.h"

namespace tandem {

namespace {

using Clock = std::chrono::steady_clock;
using Kernel = cpu::Kernels<float>;

enum class Measured : std::uint8_t { forward, backward, backward_input, backward_weight, update };
constexpr std::size_t kMeasured = 5;

/// Times by layer kind and function, from all repetitions of all threads.
using Samples = std::map<LayerKind, std::array<std::vector<Duration>, kMeasured>>;

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
        weights(stage.sizes().parameters),
        gradients(stage.sizes().parameters),
        state(stage.sizes().parameters * optimizer_states(optimizer)),
        stash(stage.sizes().stash),
        input(stage.sizes().boundary),
        output(stage.sizes().boundary),
        output_gradient(stage.sizes().boundary),
        input_gradient(stage.sizes().boundary),
        scratch(std::max(stage.sizes().scratch, stage.sizes().kept_gradients)) {
    stage.initialise(weights.elements(), 1);
    // Numbers of the size that training sees: zeros would be quicker for some processors.
    for (cpu::Buffer<float>* buffer : {&input, &output_gradient}) {
      float value = 0.3F;
      for (float& element : buffer->elements()) element = (value = 1.0F - value * 1.7F * value);
    }
  }

  LayerKind kind;
  Stage<Kernel> stage;
  cpu::Buffer<float> weights, gradients, state, stash, input, output, output_gradient,
      input_gradient, scratch;
};

/// One device's share of a measurement: passes forward and back over its own copy of the model.
class ModelPasses {
 public:
  ModelPasses(const ProfileRequest& request, std::int32_t microbatch_size)
      : optimizer_{.kind = request.optimizer} {
    const auto layers = static_cast<std::int32_t>(layers_of(request.model).size());
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      layers_.push_back(
          std::make_unique<TimedLayer>(request.model, layer, microbatch_size, request.optimizer));
    }
    Data(request.model, microbatch_size, 1).fill(0, sample_);
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
    }
    for (const auto& layer : layers_) {
      timed(samples, *layer, Measured::update, [&] {
        tandem::update(kernels_, optimizer_, 1, layer->stage.parameters(),
                       UpdateSpans<float>{.weights = layer->weights.elements(),
                                          .gradients = layer->gradients.elements(),
                                          .state = layer->state.elements(),
                                          .weights_out = layer->weights.elements()});
        kernels_.fill(layer->gradients.elements(), 0.0);
      });
    }
  }

 private:
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
Samples measure_layers(const ProfileRequest& request, std::int32_t microbatch_size,
                       const std::function<void()>& tick) {
  Samples all;
  std::mutex mutex;
  std::barrier together(request.busy_devices);
  {
    std::vector<std::jthread> threads;
    for (std::int32_t device = 0; device < request.busy_devices; ++device) {
      threads.emplace_back([&, device] {
        ModelPasses passes(request, microbatch_size);
        Samples mine;
        const std::int32_t untimed = request.repetitions / 10 + 1;
        for (std::int32_t i = -untimed; i < request.repetitions; ++i) {
          together.arrive_and_wait();
          if (request.stop.stop_requested()) continue;
          passes.pass(i < 0 ? nullptr : &mine);
          if (device == 0 && i >= 0) tick();
        }
        const std::lock_guard lock(mutex);
        for (auto& [kind, times] : mine) {
          for (std::size_t i = 0; i < kMeasured; ++i) {
            all[kind][i].insert(all[kind][i].end(), times[i].begin(), times[i].end());
          }
        }
      });
    }
  }
  check_stop(request.stop);
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
      while (ping.rings() <= i) ping.wait_beyond(i);
      std::copy(there.elements().begin(), there.elements().end(), here.elements().begin());
      pong.ring();
    }
  });
  std::vector<Duration> times;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    std::copy(here.elements().begin(), here.elements().end(), there.elements().begin());
    ping.ring();
    while (pong.rings() <= i) pong.wait_beyond(i);
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
                 .microbatches = kMicrobatches,
                 .optimizer = {.kind = OptimizerKind::sgd},
                 .seed = 1,
                 .data = &data};
  setup.layers = {{0, static_cast<std::int32_t>(layers_of(tiny).size())}};
  setup.slots = count_slots(program);
  setup.batches = kBatches;
  const std::vector<Span> spans = train_on_cpu<float>(program, setup).timeline.spans;
  return (spans.back().end - spans.front().start) / static_cast<std::int64_t>(spans.size());
}

}  // namespace

Profile measure_profile(const ProfileRequest& request) {
  Profile profile;
  profile.backend = "cpu";
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
  for (const std::int32_t size : request.microbatch_sizes) {
    for (auto& [kind, times] : measure_layers(request, size, tick)) {
      profile.layers.push_back({.kind = kind,
                                .microbatch_size = size,
                                .forward = median(times[index(Measured::forward)]),
                                .backward_input = median(times[index(Measured::backward_input)]),
                                .backward_weight = median(times[index(Measured::backward_weight)]),
                                .backward = median(times[index(Measured::backward)]),
                                .update = median(times[index(Measured::update)])});
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
