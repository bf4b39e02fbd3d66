// tandem profile: measures layer and link costs on this machine, and writes a profile.

#include "executor/profile.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "core/io/files.h"
#include "core/io/read.h"
#include "executor/train.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/json_output.h"
#include "tools/kernel_options.h"
#include "tools/machine.h"
#include "tools/optimizer_options.h"
#include "tools/options.h"
#include "tools/output_file.h"
#include "tools/processor_use.h"
#include "tools/terminal.h"

namespace tandem::tools {

namespace {

constexpr double kMostForeign = 0.02;  // share of the processors that others may take of a visit

std::vector<std::int32_t> parse_sizes(const std::string& text) {
  std::vector<std::int32_t> sizes;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    const bool digits = !word.empty() && word.size() <= 5 &&
                        word.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoi(word) < 1) {
      throw UsageError(fmt::format(
          "tandem profile: --microbatch-size: expected sizes such as 1,2,4, found \"{}\"", text));
    }
    sizes.push_back(std::stoi(word));
    at = comma + 1;
  }
  return sizes;
}

/// Of each device: the whole model, with two microbatches of the largest size. At most 2^52, so
/// that it can be multiplied.
Bytes bytes_to_profile(const ProfileRequest& request) {
  const ModelSpec& model = request.model;
  const std::int32_t largest =
      *std::max_element(request.microbatch_sizes.begin(), request.microbatch_sizes.end());
  constexpr double kMost = 0x1p52, kBytesPerChannel = 64.0;
  const double tokens = 1.0 * largest * model.sequence;
  const double held = tokens * (kBytesPerChannel * model.width * model.blocks + model.vocabulary);
  // With fewer, the exact count below stays within int64.
  if (held > 0x1p58) return static_cast<Bytes>(std::min(held, kMost));
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const StageBytes bytes =
      stage_bytes(model, {0, layers}, largest, request.optimizer, Recompute::none);
  const Bytes workspace =
      stage_bytes(model, {0, layers}, largest, request.optimizer, Recompute::selective).workspace;
  const auto real = [](Bytes of) { return static_cast<double>(of); };
  const double needed =
      2.0 * real(bytes[SlotKind::weights]) + real(bytes[SlotKind::gradients]) +
      real(bytes.optimizer) + real(workspace) +
      2.0 * (real(bytes[SlotKind::stash]) + real(bytes[SlotKind::kept_gradients]));
  return static_cast<Bytes>(std::min(needed, kMost));
}

void print_table(const Profile& profile) {
  fmt::print(
      "{} ({})\nmodel {}: {} parameters; {} devices computing at once; products: {}; medians\n\n",
      profile.machine, profile.date, profile.model.name, parameter_count(profile.model),
      profile.busy_devices, profile.kernels);
  fmt::print("{:<14} {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "layer", "microbatch",
             "forward", "backward", "input", "weight", "recompute", "update");
  for (const LayerCost& row : profile.layers) {
    fmt::print("{:<14} {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", name(row.kind),
               row.microbatch_size, print_duration(row.forward), print_duration(row.backward),
               print_duration(row.backward_input), print_duration(row.backward_weight),
               print_duration(row.selective_recompute), print_duration(row.update));
  }
  fmt::print("\n");
  for (const TransferCost& row : profile.transfers) {
    fmt::print("hand-over of {:>10}: {}\n", print_bytes(row.bytes), print_duration(row.time));
  }
  fmt::print("the executor's own time: {} an op\n", print_duration(profile.instruction_overhead));
}

void show_progress(ProfileRequest& request) {
  if (!progress_is_shown()) return;
  request.on_progress = [](std::int32_t done, std::int32_t all) {
    fmt::print(stderr, "\rprofiling: pass {} of {}{}", done, all, done == all ? "\r\033[K" : "");
    std::fflush(stderr);
  };
}

}  // namespace

int run_profile(const Arguments& arguments) {
  Options options(
      "profile", "--model FILE --output FILE [options]",
      "Measures what each layer and each hand-over between devices costs on this machine.");
  options.value("model", "FILE", "the model (JSON)")
      .value("microbatch-size", "B,…",
             "samples of a microbatch; several, separated by commas (default 1)")
      .value("devices", "N",
             "devices that compute at the same time (default: all cores, or all GPUs)")
      .value("optimizer", "NAME", "adamw|momentum|sgd: whose update is timed (default adamw)")
      .value("repetitions", "N", "timed passes over the model (default 30)")
      .value("backend", "NAME", "cpu|cuda (default cpu)")
      .value("output", "FILE", "where to write the profile");
  add_kernel_options(options);
  options.parse(arguments);
  if (!options.has("model") || !options.has("output"))
    throw UsageError("tandem profile: --model and --output are needed");
  const bool on_gpus = options.choice("backend", {"cpu", "cuda"}) == "cuda";
  if (const std::string reason = on_gpus ? why_no_cuda() : ""; !reason.empty())
    throw AbsentError(fmt::format("backend cuda: {}; use --backend cpu", reason));
  ProfileRequest request;
  request.model = read_model(options.text("model"));
  check_trainable(request.model);
  request.microbatch_sizes = parse_sizes(options.text("microbatch-size", "1"));
  request.repetitions = static_cast<std::int32_t>(options.integer("repetitions", 1, 100'000, 30));
  // None: as many as there are GPUs.
  const std::int64_t usual = on_gpus ? 0 : std::max(1u, std::thread::hardware_concurrency());
  request.busy_devices = static_cast<std::int32_t>(options.integer("devices", 1, 1024, usual));
  request.optimizer = optimizer_kind(options);
  request.device_bytes = bytes_to_profile(request);
  if (!on_gpus)
    check_fits_memory(request.busy_devices * request.device_bytes, "profiling this model");
  check_can_write(options.text("output"));
  show_progress(request);
  choose_kernels(options);
  const InterruptGuard interrupt;
  request.stop = interrupt.token();
  ProcessorWatch watch;
  std::int64_t visits = 0, disturbed = 0;
  request.disturbed = [&] {
    if (on_gpus) return false;  // what others take of the processors hardly slows them
    const ProcessorUse use = watch.since_last();
    const bool too_much = use.foreign + use.stolen > kMostForeign;
    ++visits;
    disturbed += too_much;
    return too_much;
  };
  auto [profile, algorithms] =
      on_gpus ? measure_cuda_profile(request) : CudaProfile{measure_profile(request), {}};
  profile.machine += (on_gpus ? "; " : "") + machine_name();
  profile.date = utc_now();
  profile.command = "tandem profile";
  for (const std::string& argument : arguments) profile.command += " " + argument;
  write_file(options.text("output"), profile_text(profile, algorithms));
  if (options.has("json")) {
    print_result("profile", {{"model", profile.model.name}, {"output", options.text("output")}},
                 Json::object(), Json::parse(profile_text(profile, algorithms)));
  } else {
    print_table(profile);
    if (disturbed > 0) {
      fmt::print(
          "{} of {} visits were disturbed by others on this machine; they were repeated where that "
          "could help\n",
          disturbed, visits);
    }
  }
  return 0;
}

}  // namespace tandem::tools
