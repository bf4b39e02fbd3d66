// tandem profile: measures layer and link costs on this machine, and writes a profile.

#include "executor/profile/profile.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/files/read.h"
#include "core/import/models.h"
#include "core/memory/storage.h"
#include "core/model/slice_lengths.h"
#include "core/schedule/slicing.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "executor/backends.h"
#include "simulator/cost/fitted_slices.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/json_output.h"
#include "tools/cli/machine.h"
#include "tools/cli/memory_limit.h"
#include "tools/cli/notices.h"
#include "tools/cli/options.h"
#include "tools/cli/processor_use.h"
#include "tools/cli/safe_output.h"
#include "tools/cli/split.h"
#include "tools/cli/terminal.h"
#include "tools/commands/command.h"
#include "tools/commands/profile_ranks.h"
#include "tools/options/given_options.h"
#include "tools/options/rank_options.h"
#include "tools/options/training_options.h"

namespace tandem::tools {

namespace {

constexpr double kMostForeign = 0.02;  // share of the processors that others may take of a visit

std::vector<std::int32_t> microbatch_sizes_of(const Options& options) {
  constexpr std::int32_t kMost = 99'999;
  const std::string text = options.text("microbatch-size", "1");
  std::vector<std::int32_t> sizes;
  for (const std::string_view word : split(text, ",")) {
    sizes.push_back(number_in<std::int32_t>(word).value_or(0));
    if (sizes.back() < 1 || sizes.back() > kMost)
      options["microbatch-size"].reject("sizes such as 1,2,4");
  }
  return sizes;
}

Slicing slicing_of(const Options& options) {
  if (!options.has("slices")) return {};
  const std::optional<Slicing> slicing = parse_slicing(options.text("slices"));
  if (!slicing) options["slices"].reject(std::string(kSlicingNames));
  return *slicing;
}

/// Tokens of each that is measured first; none where sequences are whole. Times to choose by are
/// those of four equal slices and, in the profile anyway, of the whole sequence.
std::vector<std::int32_t> first_slices(const Slicing& slicing, const ModelSpec& model) {
  constexpr std::int32_t kToChooseBy = 4;
  if (slicing.kind == Slicing::Kind::by_time) return slice_lengths({.count = kToChooseBy}, model);
  if (slicing.count == 1) return {};
  return slice_lengths(slicing, model);
}

/// Of a pipeline of as many stages and microbatches as there are devices, by times that these fit.
std::vector<std::int32_t> slices_by_time(const Profile& profile, const ProfileRequest& request) {
  const Slicing found = slicing_by_time(profile, std::ranges::min(request.microbatch_sizes),
                                        request.busy_devices, request.busy_devices);
  if (found.count == 1) return {};
  return found.lengths;
}

/// Of each device: the whole model, with two microbatches of the largest size. At most 2^52, so
/// that it can be multiplied.
Bytes bytes_to_profile(const ProfileRequest& request) {
  const ModelSpec& model = request.model;
  const std::int32_t largest = *std::ranges::max_element(request.microbatch_sizes);
  constexpr double kMost = 0x1p52, kBytesPerChannel = 64.0;
  const double tokens = 1.0 * largest * model.sequence;
  const double held = tokens * (kBytesPerChannel * model.width * model.blocks + model.vocabulary);
  // With fewer, the exact count below stays within int64.
  if (held > 0x1p58) return static_cast<Bytes>(std::min(held, kMost));
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const StageBytes bytes =
      stage_bytes(model, {0, layers}, largest, request.optimizer, Recompute::none, request.storage);
  Bytes workspace = 0;
  for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
    const StageBytes of =
        stage_bytes(model, {0, layers}, largest, request.optimizer, recompute, request.storage);
    workspace = std::max(workspace, of.workspace);
  }
  const auto real = [](Bytes of) { return static_cast<double>(of); };
  const double needed =
      2.0 * real(bytes[SlotKind::weights]) + real(bytes[SlotKind::gradients]) +
      real(bytes.optimizer) + real(workspace) +
      2.0 * (real(bytes[SlotKind::stash]) + real(bytes[SlotKind::kept_gradients]));
  return static_cast<Bytes>(std::min(needed, kMost));
}

void print_layers(const std::vector<LayerCost>& rows) {
  for (const LayerCost& row : rows) {
    fmt::print("{:<14} {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", name(row.kind),
               row.microbatch_size, print_duration(row.forward), print_duration(row.backward),
               print_duration(row.backward_input), print_duration(row.backward_weight),
               print_duration(row.selective_recompute),
               row.recompute ? print_duration(*row.recompute) : "-", print_duration(row.update));
  }
}

void print_table(const Profile& profile) {
  fmt::print(
      "{} ({})\nmodel {}: {} parameters; {} devices computing at once; products: {}; medians\n\n",
      profile.machine, profile.date, profile.model.name,
      print_count(parameter_count(profile.model)), profile.busy_devices, profile.kernels);
  fmt::print("{:<14} {:>10} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "layer",
             "microbatch", "forward", "backward", "input", "weight", "selective", "recompute",
             "update");
  print_layers(profile.layers);
  for (const SliceCosts& slice : profile.slices) {
    fmt::print("\nslices of {} tokens, {} before them\n", slice.tokens, slice.before);
    print_layers(slice.layers);
  }
  fmt::print("\n");
  for (const TransferCost& row : profile.transfers)
    fmt::print("hand-over of {:>10}: {}\n", print_bytes(row.bytes), print_duration(row.time));
  fmt::print("the executor's own time: {} an op\n", print_duration(profile.instruction_overhead));
}

/// What it will take, where that is worth telling.
void tell_time(const ProfileRequest& request) {
  constexpr double kForwards = 6.5;  // that a pass's work is like
  constexpr double kMuch = 2e10;     // about a second, and what surrounds it
  constexpr Duration kWorthTelling = std::chrono::seconds(20);
  const ModelSpec& model = request.model;
  const auto parameters = static_cast<double>(parameter_count(model));
  double samples = 0.0;
  for (const std::int32_t size : request.microbatch_sizes) samples += size;
  const double attended = 2.0 * model.width * model.sequence * model.blocks;
  const double operations =  // of all passes, roughly
      samples * model.sequence * request.repetitions * kForwards * 2.0 * (parameters + attended);
  if (operations < kMuch) return;
  const Duration time = estimate_profile_time(request);
  if (time >= kWorthTelling)
    print_note(fmt::format("profiling this model takes about {}", print_duration(time)));
}

void show_progress(ProfileRequest& request) {
  if (!progress_is_shown()) return;
  request.on_progress = [](std::int32_t done, std::int32_t all) {
    print_as_it_is(stderr, fmt::format("\rprofiling: pass {} of {}{}", done, all,
                                       done == all ? "\r\033[K" : ""));
  };
}

ProfileRequest request_of(const Options& options, const BackendTraits& backend) {
  ProfileRequest request;
  request.model = read_model(options.text("model"));
  check_trainable(request.model);
  request.microbatch_sizes = microbatch_sizes_of(options);
  request.slices = first_slices(slicing_of(options), request.model);
  request.repetitions = static_cast<std::int32_t>(options.integer("repetitions", 1, 100'000, 30));
  // None: as many as there are GPUs.
  const std::int64_t usual =
      backend.on_host ? std::max(1u, std::thread::hardware_concurrency()) : 0;
  request.busy_devices = static_cast<std::int32_t>(options.integer("devices", 1, 1024, usual));
  if (options.has("optimizer")) request.optimizer.kind = optimizer_kind(options["optimizer"]);
  if (options.has("delay-correction"))
    request.optimizer.correction = delay_correction(options["delay-correction"]);
  request.storage = storage_of(options);
  request.device_bytes = bytes_to_profile(request);
  request.on_notice = print_note;
  return request;
}

}  // namespace

Options options_of_profile() {
  Options options(
      "profile", "--model FILE|--ranks --output FILE [options]",
      "Measures what each layer and each hand-over between devices costs on this machine, or "
      "(--ranks) what links between processes and hosts do.");
  options.input("model", "FILE", "the model (JSON)")
      .value("microbatch-size", "B,...",
             "samples of a microbatch; several, separated by commas (default 1)")
      .value("slices", "N",
             "time slices of each sequence, too: how many; by-work:N; by-time, the fastest in a "
             "pipeline of --devices stages and as many microbatches, by the times of four; or the "
             "tokens of each, such as 512,256,256 (default: whole sequences alone)")
      .value("devices", "N",
             "devices that compute at the same time (default: all cores, or all GPUs)")
      .value("optimizer", "NAME",
             "adamw|nadam|muon|momentum|sgd: whose update is timed (default adamw)");
  declare(options, "delay-correction");
  options.value("repetitions", "N", "timed passes over the model (default 30)");
  add_backend_option(options);
  options.output("output", "FILE", "where to write the profile");
  declare(options, "storage");
  add_kernel_options(options);
  options.flag("ranks",
               "instead of a model's layers, measure the links between the ranks that tandem "
               "launch, torchrun, mpirun or srun started, and write them as a cluster's file: for "
               "tandem simulate PLAN --cluster FILE");
  add_meeting_options(options);
  return options;
}

int run_profile(const Options& options) {
  if (options.has("ranks")) return run_profile_ranks(options);
  refuse_given(options, {"rendezvous", "secret-file"}, "--{} is for --ranks");
  if (!options.has("model") || !options.has("output"))
    refuse(options, "--model and --output are needed");
  check_storage(options);
  const BackendTraits& backend = backend_of(options);
  check_present(backend);
  ProfileRequest request = request_of(options, backend);
  if (backend.on_host)
    check_fits_memory(request.busy_devices * request.device_bytes, "profiling this model");
  check_can_write(options.text("output"));
  choose_kernels(options, backend.on_host);
  const InterruptGuard interrupt(OnInterrupt::ends_by_itself);
  request.stop = interrupt.token();
  if (backend.on_host) {
    tell_memory(request.busy_devices * request.device_bytes, "profiling this model");
    tell_time(request);
  }
  show_progress(request);
  ProcessorWatch watch;
  std::int64_t visits = 0, disturbed = 0;
  request.disturbed = [&] {
    if (!backend.on_host) return false;  // what others take of the processors hardly slows them
    const ProcessorUse use = watch.since_last();
    const bool too_much = use.foreign + use.stolen > kMostForeign;
    ++visits;
    disturbed += too_much;
    return too_much;
  };
  auto [profile, algorithms] = measure_on(backend, request);
  if (slicing_of(options).kind == Slicing::Kind::by_time) {
    const std::vector<std::int32_t> fastest = slices_by_time(profile, request);
    if (fastest.empty()) {
      print_note("whole sequences are the fastest: the profile keeps the times of equal slices");
    } else if (fastest != request.slices) {
      request.slices = fastest;
      MeasuredProfile again = measure_on(backend, request);
      profile = std::move(again.profile);
      algorithms = std::move(again.algorithms);
    }
  }
  profile.machine += (profile.machine.empty() ? "" : "; ") + machine_name();
  profile.date = utc_now();
  profile.command = "tandem profile";
  for (const std::string& argument : options.arguments()) profile.command += " " + argument;
  write_file(options.text("output"), profile_text(profile, algorithms));
  if (options.has("json")) {
    print_result("profile", {{"model", profile.model.name}, {"output", options.text("output")}},
                 Json::object(), profile_json(profile, algorithms));
  } else {
    print_table(profile);
    if (disturbed > 0) {
      fmt::print(
          "other processes disturbed {} of {} measurements, which were repeated where that could "
          "help\n",
          disturbed, visits);
    }
  }
  return 0;
}

}  // namespace tandem::tools
