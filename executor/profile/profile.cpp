#include "executor/profile/profile.h"

#include <algorithm>
#include <chrono>

#include "core/lower/lower.h"
#include "executor/cpu/backend.h"
#include "executor/cpu/products.h"
#include "executor/profile/profile_visits.h"
#include "executor/run/training_setup.h"

namespace tandem {

namespace {

using Clock = std::chrono::steady_clock;

/// One way, from the start of the copy to the other side running: half of a round trip between two
/// threads.
Duration measure_transfer(Bytes bytes, std::int32_t repetitions) {
  const std::int64_t elements = (bytes + 3) / 4;
  cpu::Buffer<float> here(elements), there(elements);
  Wakeup ping, pong;
  const auto rounds = static_cast<std::uint32_t>(repetitions);
  std::vector<Duration> times;
  times.reserve(rounds);  // whatever throws later would leave the other thread waiting
  std::jthread other([&] {
    for (std::uint32_t i = 0; i < rounds; ++i) {
      while (ping.wakes() <= i) ping.wait_beyond(i, cpu::kSpin);
      std::copy(there.elements().begin(), there.elements().end(), here.elements().begin());
      pong.wake();
    }
  });
  for (std::uint32_t i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    std::copy(here.elements().begin(), here.elements().end(), there.elements().begin());
    ping.wake();
    while (pong.wakes() <= i) pong.wait_beyond(i, cpu::kSpin);
    times.push_back((Clock::now() - start) / 2);
  }
  return median(std::move(times));
}

/// So many that the median of a large one takes no minutes.
std::int32_t transfers_of(Bytes bytes) {
  constexpr Bytes kCopied = Bytes{2} << 30;
  return static_cast<std::int32_t>(std::clamp<Bytes>(kCopied / bytes, 20, 200));
}

MeasuredSizes measure_on_cpu(const ProfileRequest& request) {
  using B = cpu::Backend<float>;
  return measure_layers<B>(request, [](DeviceId, Wakeup& wakeup, std::stop_token stop) {
    return std::make_unique<B>(wakeup, std::move(stop));
  });
}

/// What one pass takes and what begins a visit, with a sequence of so many tokens and one sample.
struct ProbedPass {
  double attention_s = 0.0, others_s = 0.0, updates_s = 0.0, start_s = 0.0;
};

ProbedPass probe(ProfileRequest request, std::int32_t sequence) {
  request.model.sequence = sequence;
  request.microbatch_sizes = {1};
  request.slices = {};
  request.repetitions = 1;
  request.on_progress = {};
  request.disturbed = {};
  const Clock::time_point start = Clock::now();
  const std::vector<LayerCost> rows = layer_costs(measure_on_cpu(request).whole);
  ProbedPass pass;
  for (const LayerKind kind : layers_of(request.model)) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [kind](const LayerCost& one) { return one.kind == kind; });
    if (row == rows.end()) continue;
    const Duration time = 2 * row->forward + row->backward + row->backward_input +
                          row->backward_weight + row->selective_recompute +
                          row->recompute.value_or(Duration{});
    (kind == LayerKind::attention ? pass.attention_s : pass.others_s) += to_seconds(time);
    pass.updates_s += to_seconds(row->update) / kPassesAnUpdate;
  }
  const double passes_s = 2.0 * (pass.attention_s + pass.others_s + pass.updates_s);
  pass.start_s = std::max(0.0, to_seconds(Clock::now() - start) - passes_s);
  return pass;
}

}  // namespace

Duration estimate_profile_time(const ProfileRequest& request) {
  constexpr std::int32_t kProbed = 256;
  const std::int32_t length = std::min(request.model.sequence, kProbed);
  const double times = static_cast<double>(request.model.sequence) / length;
  const ProbedPass whole = probe(request, length);
  // attention = a·length + b·length²: what is beyond twice its half is all of the square's, twice.
  double square_s = 0.0;
  if (times > 1.0) {
    const double half_s = probe(request, length / 2).attention_s;
    square_s = std::clamp(2.0 * (whole.attention_s - 2.0 * half_s), 0.0, whole.attention_s);
  }
  const double sample_s =
      (whole.attention_s - square_s + whole.others_s) * times + square_s * times * times;
  double all_s = 0.0;
  const double passes = request.repetitions + visits_of(request);
  for (const std::int32_t size : request.microbatch_sizes)
    all_s += passes * (size * sample_s + whole.updates_s) + visits_of(request) * whole.start_s;
  if (!request.slices.empty()) all_s *= 2.0;
  return Duration(static_cast<std::int64_t>(std::min(all_s * 1e9, 9e18)));
}

namespace {

/// The ops of a run of one linear layer on one device, in their order.
std::vector<Span> run_of_layer(Trainer& trainer, std::int32_t width, std::int32_t sequence,
                               std::int64_t batches) {
  const ModelSpec model{.name = "overhead",
                        .architecture = Architecture::linear,
                        .blocks = 1,
                        .width = width,
                        .heads = 1,
                        .sequence = sequence,
                        .vocabulary = 256,
                        .tied = false};
  constexpr std::int32_t kMicrobatches = 64;
  const Program program = lower(make_schedule(
      plain_schedule(), {.devices = 1, .microbatches = kMicrobatches, .replicas = {}}));
  const Data data(model, 1, 1);
  TrainingSetup<float> setup;
  setup.stage = {.model = model,
                 .microbatch_size = 1,
                 .optimizer = {.kind = OptimizerKind::sgd},
                 .seed = 1,
                 .data = &data};
  setup.layers = {{0, static_cast<std::int32_t>(layers_of(model).size())}};
  setup.slots = count_slots(program);
  setup.batches = batches;
  return trainer.train(program, setup).timelines.front().spans;
}

}  // namespace

Duration measure_overhead(Trainer& trainer) {
  const std::vector<Span> spans = run_of_layer(trainer, 1, 1, 40);
  return (spans.back().end - spans.front().start) / static_cast<std::int64_t>(spans.size());
}

Duration measure_gap(Trainer& trainer) {
  // Ops of a tenth of a millisecond and more, so that the host is ahead.
  std::vector<Span> spans = run_of_layer(trainer, 2048, 512, 5);
  std::ranges::sort(spans, {}, &Span::start);
  std::vector<Duration> gaps;
  for (std::size_t i = 1; i < spans.size(); ++i)
    gaps.push_back(std::max(spans[i].start - spans[i - 1].end, Duration{}));
  const auto middle = gaps.begin() + std::ssize(gaps) / 2;
  std::ranges::nth_element(gaps, middle);
  return *middle;
}

std::vector<Bytes> hand_over_sizes(const ProfileRequest& request) {
  std::vector<Bytes> sizes{
      4096, 2 * static_cast<Bytes>(request.model.vocabulary) * request.model.width * 4};
  for (const std::int32_t size : request.microbatch_sizes) {
    const Bytes whole = boundary_bytes(request.model, size);
    sizes.push_back(whole);
    for (const std::int32_t tokens : request.slices)
      sizes.push_back(whole / request.model.sequence * tokens);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Profile measure_profile(const ProfileRequest& request, Trainer& trainer) {
  check_trainable(request.model);
  Profile profile;
  profile.kernels = cpu::describe(cpu::products().engine);
  profile.model = request.model;
  profile.optimizer = request.optimizer;
  profile.busy_devices = request.busy_devices;
  put_layers(measure_on_cpu(request), request, profile);
  for (const Bytes bytes : hand_over_sizes(request)) {
    check_stop(request.stop);
    profile.transfers.push_back({bytes, measure_transfer(bytes, transfers_of(bytes))});
  }
  profile.instruction_overhead = measure_overhead(trainer);
  return profile;
}

}  // namespace tandem
