#include "tools/options/cluster_question.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "planner/cluster/batch_search.h"
#include "planner/study/timed_search.h"
#include "tools/cli/split.h"
#include "tools/options/cluster_options.h"
#include "tools/options/given_options.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostGlobalBatch = 1'000'000'000;

template <class Number>
std::optional<Number> given_number(const Options& options, const std::string& name) {
  if (!options.has(name)) return std::nullopt;
  return static_cast<Number>(
      options.integer(name, 1, std::numeric_limits<std::uint16_t>::max(), 1));
}

std::vector<std::string> schedules_asked(const Options& options) {
  std::vector<std::string> names;
  if (!options.has("schedule")) return names;
  const std::string given = options.text("schedule");
  bool one_has_several = false;  // stages on a device
  for (const std::string_view name : split(given, ",")) {
    const ScheduleTraits& row = find_schedule(name);
    if (is_search(row))
      refuse(options, "schedule {} is for plain costs, not for a model", row.name);
    one_has_several = one_has_several || row.replicas_per_device != 1;
    names.emplace_back(row.name);
  }
  if (options.has("chunks") && !one_has_several)
    refuse(options, "--chunks is not taken: {} has one stage on each device", given);
  return names;
}

}  // namespace

ClusterQuestion cluster_question_of(const Options& options) {
  if (!options.has("model")) refuse(options, "--model is missing");
  for (const char* name : {"schedule-file", "storage"}) {
    if (options.has(name)) refuse(options, "--{} is not for a plan on a cluster", name);
  }
  std::vector<std::string_view> read{"model",        "cluster",    "semantics",
                                     "device-order", "node-order", "zero"};
  read.insert(read.end(), kGivenForAllPlans.begin(), kGivenForAllPlans.end());
  GivenOptions given = given_options(options, read);
  given.flags.erase("devices");  // at most: it is no shape
  ClusterQuestion question{.base =
                               cluster_request(given, plain_schedule(), OtherOptions::passed_over)};
  question.base.plan.request.global_norm = given.global_norm().value_or(false);
  question.vanilla_only = given.vanilla_only;
  if (options.has("objective")) {
    question.objective =
        *one_of(options["objective"], {Objective::throughput, Objective::memory, Objective::cost});
  }
  question.schedules = schedules_asked(options);
  question.most_devices = options.integer("devices", 1, kMostClusterDevices, 0);
  question.tensor = given_number<std::int32_t>(options, "tensor");
  question.microbatch_size = given_number<std::int32_t>(options, "microbatch-size");
  question.depth = given_number<std::uint16_t>(options, "depth");
  question.width = given_number<std::uint16_t>(options, "width");
  question.chunks = given_number<std::uint16_t>(options, "chunks");
  if (options.has("recompute")) {
    question.recompute = parse_recompute(options.text("recompute"));
    if (!question.recompute) options["recompute"].reject(std::string(kRecomputeNames));
  }
  if (options.has("gap")) {
    const std::optional<double> gap = parse_percent(options.text("gap"));
    if (!gap || *gap < 0.0 || *gap > 0.5) options["gap"].reject("a share up to 50%, such as 1%");
    question.gap = *gap;
  }
  if (options.has("zero")) question.sharded_optimizer = given.sharded_optimizer;
  question.contention = given.has("contention");
  if (options.has("device-order")) question.order = given.device_order;
  question.given_node_order = options.has("node-order");
  return question;
}

std::vector<std::int64_t> batches_asked(const Options& options, const ClusterQuestion& question) {
  if (!options.has("global-batch")) return usual_batches(question.base.plan.model.sequence);
  const std::string text = options.text("global-batch");
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return {options.integer("global-batch", 1, kMostGlobalBatch, 1)};
  const auto end_of_range = [](std::string of) {
    return OptionValue("plan", "global-batch", std::move(of)).integer(1, kMostGlobalBatch);
  };
  const std::int64_t least = end_of_range(text.substr(0, dots));
  const std::int64_t most = end_of_range(text.substr(dots + 2));
  if (most < least) options["global-batch"].reject("LOW..HIGH that ascend, such as 64..1024");
  return doubled_batches(least, most);
}

}  // namespace tandem::tools
