#include "executor/profile.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/lower.h"
#include "core/schedule.h"
#include "executor/cpu/backend.h"
#include "executor/cpu/products.h"
#include "executor/profile_visits.h"
#include "executor/train.h"

namespace tandem {

namespace {

using Clock = std::chrono::steady_clock;

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

}  // namespace

Duration measure_overhead(Trainer& trainer) {
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
  const std::vector<Span> spans = trainer.train(program, setup).timelines.front().spans;
  return (spans.back().end - spans.front().start) / static_cast<std::int64_t>(spans.size());
}

std::vector<Bytes> hand_over_sizes(const ProfileRequest& request) {
  std::vector<Bytes> sizes{
      4096, 2 * static_cast<Bytes>(request.model.vocabulary) * request.model.width * 4};
  for (const std::int32_t size : request.microbatch_sizes)
    sizes.push_back(boundary_bytes(request.model, size));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

Profile measure_profile(const ProfileRequest& request) {
  check_trainable(request.model);
  Profile profile;
  profile.backend = "cpu";
  profile.kernels = cpu::describe(cpu::products().engine);
  profile.model = request.model;
  profile.optimizer = request.optimizer;
  profile.busy_devices = request.busy_devices;
  using B = cpu::Backend<float>;
  profile.layers =
      layer_costs(measure_layers<B>(request, [](DeviceId, Doorbell& bell, std::stop_token stop) {
        return std::make_unique<B>(bell, std::move(stop));
      }));
  for (const Bytes bytes : hand_over_sizes(request)) {
    check_stop(request.stop);
    profile.transfers.push_back({bytes, measure_transfer(bytes, 200)});
  }
  profile.instruction_overhead = measure_overhead(*make_trainer("cpu"));
  return profile;
}

}  // namespace tandem
