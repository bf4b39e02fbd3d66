#include "tools/options/sweep_options.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/ascii.h"
#include "core/text/output_place.h"
#include "tools/cli/split.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostShards = 1'000'000;
constexpr std::string_view kPlace = "{shard}";

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

std::int64_t environment(const char* variable) {
  const char* text = std::getenv(variable);
  const auto value = text == nullptr ? std::nullopt : number_in<std::int64_t>(text);
  if (!value) {
    throw AbsentError(fmt::format("tandem sweep: --shard: {} is {}: expected an integer", variable,
                                  text == nullptr ? "not set" : fmt::format("\"{}\"", text)));
  }
  return *value;
}

/// `number` counts from 0.
Shard checked(std::int64_t number, std::int64_t of, std::string_view source) {
  if (number < 0 || of < 1 || of > kMostShards || number >= of) {
    throw AbsentError(
        fmt::format("tandem sweep: --shard: {} says number {} of {}", source, number, of));
  }
  return {static_cast<std::size_t>(number) + 1, static_cast<std::size_t>(of)};
}

Shard of_slurm() {
  if (!is_set("SLURM_ARRAY_TASK_ID")) {
    if (!is_set("SLURM_STEP_NUM_TASKS"))
      throw AbsentError(
          "tandem sweep: --shard slurm: neither SLURM_ARRAY_TASK_ID nor SLURM_STEP_NUM_TASKS is "
          "set: this is neither a task of a job array nor one of srun");
    return checked(environment("SLURM_PROCID"), environment("SLURM_STEP_NUM_TASKS"), "srun");
  }
  const std::int64_t least = environment("SLURM_ARRAY_TASK_MIN");
  const std::int64_t most = environment("SLURM_ARRAY_TASK_MAX");
  const std::int64_t count = environment("SLURM_ARRAY_TASK_COUNT");
  const std::int64_t step =
      is_set("SLURM_ARRAY_TASK_STEP") ? environment("SLURM_ARRAY_TASK_STEP") : 1;
  if (step < 1 || (most - least) / step + 1 != count) {
    throw AbsentError(
        fmt::format("tandem sweep: --shard slurm: an array of {} tasks from {} to {} has gaps: "
                    "give --shard K/N",
                    count, least, most));
  }
  return checked((environment("SLURM_ARRAY_TASK_ID") - least) / step, count, "the job array");
}

Shard of_mpi() {
  struct Launcher {
    const char *rank, *size;
  };
  // Open MPI; MPICH, Intel MPI and others of Hydra; MVAPICH.
  constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                     {"PMI_RANK", "PMI_SIZE"},
                                     {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"}};
  for (const Launcher& one : kLaunchers) {
    if (is_set(one.rank)) return checked(environment(one.rank), environment(one.size), "mpirun");
  }
  throw AbsentError(
      "tandem sweep: --shard mpi: none of OMPI_COMM_WORLD_RANK, PMI_RANK and MV2_COMM_WORLD_RANK "
      "is set: this was not started by mpirun");
}

/// A task knows its number, from 1 where the array is 1-N, and not N.
Shard of_hyper_queue(std::int64_t of) {
  return checked(environment("HQ_TASK_ID") - 1, of, "the task array of HyperQueue");
}

}  // namespace

Shard shard_of(const Options& options) {
  if (!options.has("shard")) return {};
  const std::string text = options.text("shard");
  if (text == "slurm") return of_slurm();
  if (text == "mpi") return of_mpi();
  const auto [first, second] = halved(text, '/');
  if (const auto tasks = number_in<std::int64_t>(second); first == "hq" && tasks)
    return of_hyper_queue(*tasks);
  const auto number = number_in<std::int64_t>(first), of = number_in<std::int64_t>(second);
  if (!number || !of || *number < 1 || *of > kMostShards || *number > *of) {
    refuse(options,
           "--shard: expected K/N with K from 1 to N, hq/N, slurm, mpi or ranks, found "
           "\"{}\"",
           text);
  }
  return {static_cast<std::size_t>(*number), static_cast<std::size_t>(*of)};
}

std::string shard_path(const Options& options, const std::string& name, const Shard& shard) {
  std::string path = options.text(name);
  const std::string shards = options.text("shard");
  if (options.has(name) && (shards == "slurm" || shards == "mpi" || shards.starts_with("hq/")) &&
      path.find(kPlace) == std::string::npos) {
    refuse(options,
           "--{}: all shards would write \"{}\": name the shard in it, such "
           "as rows-{}.jsonl",
           name, path, kPlace);
  }
  for (std::size_t at = path.find(kPlace); at != std::string::npos; at = path.find(kPlace))
    path.replace(at, kPlace.size(), std::to_string(shard.number));
  return path;
}

std::vector<NamedFile> shard_outputs(const Options& options, const Shard& shard) {
  std::vector<NamedFile> files = options.outputs();
  for (NamedFile& file : files) file.path = shard_path(options, file.title.substr(2), shard);
  return files;
}

void add_report_options(Options& options) {
  options.group("Table, files and pictures")
      .value("rank", "BY",
             fmt::format("{}: the order of the table (default throughput)",
                         fmt::join(names_of(sweep_metrics()), ", ")))
      .value("top", "N", "rows of the table (default 20)")
      .output("csv", "FILE", "write all rows as CSV")
      .output("json-lines", "FILE", "write all rows, one JSON object a line")
      .flag("picture",
            "draw the ranked figure against memory, or with --over its best for each value of an "
            "option")
      .output("svg", "FILE", "write that picture as SVG")
      .value("over", "OPTION", "the picture's horizontal axis: an option")
      .value("by", "OPTION",
             "one colour per value of this option in the picture (default: the first option that "
             "is left)");
}

SweepReportRequest report_request(const Options& options, std::string csv, std::string svg) {
  SweepReportRequest request{
      .metric = sweep_metric(options.choice("rank", names_of(sweep_metrics()))),
      .top = static_cast<std::size_t>(options.integer("top", 0, 1'000'000, 20)),
      .table = !options.has("json"),
      .picture = options.has("picture"),
      .csv = std::move(csv),
      .svg = std::move(svg),
      .over = options.text("over"),
      .by = options.text("by")};
  for (const std::string& path : {request.csv, request.svg}) {
    if (!path.empty()) check_can_write(path);
  }
  if (request.picture && !request.table)
    throw UsageError("tandem sweep: give --picture or --json, not both");
  for (const char* name : {"over", "by"}) {
    if (options.has(name) && !request.picture && request.svg.empty())
      throw UsageError(fmt::format("tandem sweep: --{} is for --picture or --svg", name));
  }
  if (!request.over.empty() && request.over == request.by)
    throw UsageError("tandem sweep: --over and --by: expected two options");
  return request;
}

}  // namespace tandem::tools
