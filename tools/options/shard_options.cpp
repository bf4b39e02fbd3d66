#include "tools/options/shard_options.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/base/ascii.h"
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

bool of_environment(const std::string& text) { return text == "slurm" || text == "mpi"; }

}  // namespace

Shard shard_of(const Options& options) {
  if (!options.has("shard")) return {};
  const std::string text = options.text("shard");
  if (text == "slurm") return of_slurm();
  if (text == "mpi") return of_mpi();
  const auto [first, second] = halved(text, '/');
  const auto number = number_in<std::int64_t>(first), of = number_in<std::int64_t>(second);
  if (!number || !of || *number < 1 || *of > kMostShards || *number > *of) {
    throw UsageError(
        fmt::format("tandem sweep: --shard: expected K/N with K from 1 to N, slurm or mpi, found "
                    "\"{}\"",
                    text));
  }
  return {static_cast<std::size_t>(*number), static_cast<std::size_t>(*of)};
}

std::string shard_path(const Options& options, const std::string& name, const Shard& shard) {
  std::string path = options.text(name);
  if (options.has(name) && of_environment(options.text("shard")) &&
      path.find(kPlace) == std::string::npos) {
    throw UsageError(
        fmt::format("tandem sweep: --{}: all shards would write \"{}\": name the shard in it, such "
                    "as rows-{}.jsonl",
                    name, path, kPlace));
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

}  // namespace tandem::tools
