#include "tools/print/scenario_summary.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/constants_files.h"
#include "core/files/schedule_request_json.h"
#include "core/model/slice_lengths.h"
#include "core/text/count_text.h"
#include "tools/cli/terminal.h"
#include "tools/print/words.h"

namespace tandem::tools {

std::string cluster_summary(const ClusterSetup& setup) {
  const Cluster& cluster = setup.cluster();
  const std::int32_t tensor = setup.assumptions().tensor;
  std::set<std::string> kinds;
  for (std::size_t i = 0; i < setup.devices_used(); ++i)
    kinds.insert(cluster[id_at<DeviceId>(i)].name);
  const Plan& plan = setup.made.plan;
  std::string text = fmt::format(
      "{} ({} parameters, sequence {}) on {} of {} devices of {}: {}\n"
      "width {}, depth {}{}; batches of {} = {} x {} microbatches of {}",
      plan.model.name, print_count(parameter_count(plan.model)), plan.model.sequence,
      setup.devices_used(), cluster.size(), cluster.name(), fmt::join(kinds, ", "),
      plan.request.width, plan.request.devices,
      tensor > 1 ? fmt::format(", tensor {}", tensor) : "",
      std::int64_t{plan.request.width} * plan.request.microbatches * plan.microbatch_size,
      plan.request.width, plan.request.microbatches, plan.microbatch_size);
  if (plan.request.slices.count > 1) {
    text += fmt::format(", in slices of {} tokens",
                        fmt::join(slice_lengths(plan.request.slices, plan.model), ", "));
  }
  if (setup.tried.size() > 1) {
    const std::string shapes = fmt::format("{} shapes that use all devices", setup.tried.size());
    text += setup.tried.front().fits ? "; the fastest that fits of " + shapes
                                     : "; none of " + shapes + " fits; this one is nearest";
  }
  return text;
}

Json cluster_config(const ClusterSetup& setup) {
  const Plan& plan = setup.made.plan;
  const auto shape_json = [](const TriedShape& one) {
    Json row{{"width", one.width}, {"depth", one.depth}};
    if (one.refusal.empty()) {
      row["throughput_samples_per_s"] = one.samples_per_s;
      row["fits"] = one.fits;
    } else {
      row["refused"] = one.refusal;
    }
    return row;
  };
  return {{"model", plan.model.name},
          {"parameters", parameter_count(plan.model)},
          {"sequence", plan.model.sequence},
          {"cluster", setup.cluster().name()},
          {"cluster_devices", setup.cluster().size()},
          {"devices_used", setup.devices_used()},
          {"schedule", plan.schedule},
          {"depth", plan.request.devices},
          {"tensor", setup.assumptions().tensor},
          {"microbatch_size", plan.microbatch_size},
          {"global_batch",
           std::int64_t{plan.request.width} * plan.request.microbatches * plan.microbatch_size},
          {"optimizer", name(plan.optimizer.kind)},
          {"delay_correction", name(plan.optimizer.correction)},
          {"stages", stages_json(plan)},
          {"shapes", array_of(setup.tried, shape_json)}};
}

Json origin_json(const Profile& profile) {
  return {{"machine", profile.machine}, {"date", profile.date}, {"command", profile.command}};
}

Json cluster_assumptions(const ScenarioRequest& request, const ClusterSetup& setup) {
  const AnalyticAssumptions& assumptions = setup.assumptions();
  const std::optional<CalibrationFile>& calibration = setup.request.calibration;
  const Calibration constants = constants_of(assumptions, setup.cluster()[DeviceId{}]);
  Json json{{"costs", assumptions.measured ? "measured layers" : "analytic"},
            {"dtype", name(assumptions.format)},
            {"attention", name(assumptions.attention)},
            {"product_fraction", constants.product_fraction},
            {"memory_fraction", constants.memory_fraction},
            {"link_fraction", constants.link_fraction},
            {"sequence_parallel", assumptions.sequence_parallel},
            {"zero", assumptions.sharded_optimizer ? 1 : 0},
            {"reserve", reserve_json(assumptions.reserve)},
            {"fits_by", name(assumptions.fits_by)},
            {"device_order", name(setup.request.order)},
            {"cut", name(setup.request.cut)},
            {"notes", assumption_lines(request, setup)}};
  if (const auto spread = setup.spread()) {
    json["spread"] = {{"rows", spread->rows}, {"within_80", spread->within_80}};
  }
  if (assumptions.collectives) json["collectives"] = collectives_json(*assumptions.collectives);
  if (calibration) json["calibration"] = calibration_json(*calibration);
  if (assumptions.measured) json["profile"] = origin_json(assumptions.measured->begin()->second);
  return json;
}

static std::string rates_line(const AnalyticAssumptions& assumptions, const Calibration& constants,
                              const std::optional<CalibrationFile>& calibration) {
  if (assumptions.measured) {
    const Profile& profile = assumptions.measured->begin()->second;
    return fmt::format(
        "layers as measured on {}, {}, including sums between devices that share a layer; memory "
        "at "
        "{:.4g} %, links at {:.4g} %",
        profile.machine, profile.date, 100 * constants.memory_fraction,
        100 * constants.link_fraction);
  }
  const std::string rates = fmt::format(
      "products (GEMM) in {} at {:.4g} % of peak, memory at {:.4g} %, links at {:.4g} %; {} "
      "attention",
      name(assumptions.format), 100 * constants.product_fraction, 100 * constants.memory_fraction,
      100 * constants.link_fraction, name(assumptions.attention));
  if (constants.launch_s == 0.0) return rates + "; launches, hosts and data cost nothing";
  return fmt::format("{}; {:.3g} us of the host for a kernel: {}", rates, 1e6 * constants.launch_s,
                     calibration
                         ? fmt::format("constants fitted to iterations on {} in {}, {} attention",
                                       calibration->device, name(calibration->format),
                                       name(calibration->attention))
                         : "what Megatron's GPTs take on A100s (tandem calibrate fits yours)");
}

static std::string spread_line(const PredictionSpread& spread) {
  return fmt::format(
      "80 % of {} measured iterations, to which nothing was fitted, lie within ±{:.3g} %",
      spread.rows, 100 * spread.within_80);
}

std::vector<std::string> assumption_lines(const ScenarioRequest& request,
                                          const ClusterSetup& setup) {
  const ClusterRequest& asked = setup.request;
  const AnalyticAssumptions& assumptions = asked.assumptions;
  const Bytes element = bytes_of(assumptions.format);
  const auto bytes_of_states = [element](std::int32_t states) {
    return Bytes{4} * (states + (element < 4 ? 1 : 0));
  };
  const Bytes states = bytes_of_states(optimizer_states(setup.made.plan.optimizer)),
              of_matrices = bytes_of_states(matrix_states(setup.made.plan.optimizer));
  std::vector<std::string> lines{
      rates_line(assumptions, constants_of(assumptions, setup.cluster()[DeviceId{}]),
                 asked.calibration),
      fmt::format("bytes a parameter: weights {} a version, gradients {}, optimizer {}{}; "
                  "activations {} dropout, logits in fp32; driver, libraries and the "
                  "allocator's gaps in the reserve, {}",
                  element, element, states,
                  states == of_matrices ? "" : fmt::format(" ({} of hidden matrices)", of_matrices),
                  shape_of(setup.made.plan.model).dropout ? "with" : "without",
                  describe(assumptions.reserve)),
      fmt::format("devices {}; {}", name(asked.order),
                  request.contention
                      ? "transfers and all-reduce share links fairly (max-min); all pipelines run "
                        "in step"
                  : assumptions.collectives
                      ? "transfers of all pipelines share links with one another; all-reduce takes "
                        "its measured times, and each device has an equal share of its node's link "
                        "to other nodes"
                      : "transfers of all pipelines share links with one another, and so do the "
                        "all-reduces of all stages; no other traffic shares")};
  if (const auto spread = setup.spread()) lines.insert(lines.begin() + 1, spread_line(*spread));
  if (request.compute_slowdown > 1.0) {
    lines.push_back(
        fmt::format("a device computes {:.4g} times as long while it sends, receives or sums, "
                    "latency included; "
                    "moving data is not slowed",
                    request.compute_slowdown));
  }
  if (!asked.sequence_note.empty()) lines.push_back(asked.sequence_note);
  if (setup.made.plan.model.shape.experts > 0) {
    lines.emplace_back(
        "tokens fall evenly on all experts of a layer, which are on the devices of its stage: no "
        "expert parallelism");
  }
  if (asked.cut == StageCut::even)
    lines.emplace_back("every stage has equally many blocks; the last also has the head");
  if (asked.blocking_transfers)
    lines.emplace_back("a device that sends or receives does not compute meanwhile");
  if (assumptions.sequence_parallel && assumptions.tensor > 1) {
    lines.emplace_back(
        "norms, dropout and what crosses stages are split over the sequence; gathers and scatters "
        "take as long as the sums that they replace, and the second gather of a backward is "
        "hidden");
  }
  if (assumptions.sharded_optimizer) {
    lines.emplace_back(
        "replicas shard the optimizer's state: they scatter gradients and gather updated weights; "
        "nothing overlaps with that");
  }
  if (assumptions.tensor > 1) {
    lines.push_back(
        fmt::format("{} devices share each layer and sum its results, once each way; nothing "
                    "overlaps with those sums",
                    assumptions.tensor));
  }
  return lines;
}

void print_assumptions(const ScenarioRequest& request, const ClusterSetup& setup) {
  fmt::print("\nAssumed, not measured:\n");
  for (const std::string& line : assumption_lines(request, setup))
    fmt::print("  {}\n", wrapped(line, text_columns(), 4));
}

namespace {

Json as_json(const ScheduleRequest& request) {
  Json json{{"devices", request.devices}, {"microbatches", request.microbatches}};
  write_all_schedule_options(request, json);
  return json;
}

Json costs_json(const PlainCosts& costs) {
  if (costs.file) return {{"costs", costs.path}};
  Json json = Json::object();
  for (const PlainTimeRow& row : kPlainTimeRows) {
    const std::optional<Duration>& time = costs.times.*row.member;
    if (time) json[fmt::format("{}_s", row.flag)] = to_seconds(*time);
  }
  return json;
}

Json source_json(const PlainRequest& plain, const PreparedScenario& prepared) {
  Json json{{"schedule", prepared.scenario.schedule.name},
            {"microbatch_size", plain.microbatch_size}};
  json.update(as_json(prepared.request));
  json.update(costs_json(plain.costs));
  return json;
}

Json source_json(const PlanFileRequest& file, const PreparedScenario& prepared) {
  const Plan& plan = *prepared.plan;
  Json json{{"plan", file.path},
            {"model", plan.model.name},
            {"schedule", plan.schedule},
            {"storage", name(file.storage)},
            {"microbatch_size", plan.microbatch_size}};
  json.update(as_json(prepared.request));
  if (file.link_rate) json["link_bytes_per_s"] = *file.link_rate;
  if (file.on) json["cluster"] = file.on->cluster->name();
  return json;
}

Json source_json(const ClusterRequest&, const PreparedScenario& prepared) {
  Json json = cluster_config(*prepared.cluster);
  json.update(as_json(prepared.request));
  return json;
}

}  // namespace

Json config_json(const ScenarioRequest& request, const PreparedScenario& prepared) {
  Json json =
      std::visit([&](const auto& source) { return source_json(source, prepared); }, request.source);
  if (request.contention) json["compute_slowdown"] = request.compute_slowdown;
  json["semantics"] = name(prepared.scenario.weights);
  for (const PerturbationTraits& kind : kPerturbations) {
    std::string text;
    for (const Perturbation& one : request.perturbations) {
      if (one.kind == kind.kind) text += (text.empty() ? "" : ",") + text_of(one);
    }
    if (!text.empty()) json[std::string(kind.key)] = text;
  }
  return json;
}

std::string_view contention_text(bool contention) {
  return contention ? "max-min fair shares of every link, all pipelines in step"
                    : "replicas share links; nothing else does";
}

std::array<Assumption, 3> run_assumptions(const ScenarioRequest& request,
                                          const PreparedScenario& prepared) {
  const bool on_cluster = prepared.cluster || (request.plan() != nullptr && request.plan()->on);
  return {{{"lanes", request.lanes == TransferLanes::ideal ? "ideal" : "shared"},
           {"transfers", request.blocking_transfers ? "blocking" : "overlapped"},
           {"contention", request.contention || on_cluster ? contention_text(request.contention)
                                                           : "none: no two lanes share a link"}}};
}

Json assumptions_json(const ScenarioRequest& request, const PreparedScenario& prepared) {
  Json json = Json::object();
  if (prepared.cluster) json = cluster_assumptions(request, *prepared.cluster);
  if (prepared.profile) json["profile"] = origin_json(*prepared.profile);
  if (!prepared.cluster && prepared.scenario.capacity)
    json["reserve"] = reserve_json(prepared.scenario.reserve);
  for (const auto& [key, text] : run_assumptions(request, prepared)) json[std::string(key)] = text;
  return json;
}

}  // namespace tandem::tools
