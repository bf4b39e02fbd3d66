#include "core/export/exporters.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/export/engine.h"
#include "core/notation/pytorch_csv.h"

namespace tandem {

namespace {

std::vector<ExportObstacle> csv_obstacles(const ExportedPlan& exported) {
  std::vector<ExportObstacle> obstacles;
  check_csv(exported, obstacles);
  return obstacles;
}

std::string csv_text(const ExportedPlan& exported) {
  return print_pytorch_csv(without_sums(exported.schedule));
}

std::vector<ExportObstacle> no_obstacles(const ExportedPlan& /*exported*/) { return {}; }

constexpr std::array<Exporter, 5> kExporters{{
    {"torchtitan", "its job's TOML", torchtitan_obstacles, torchtitan_text},
    {"megatron", "Megatron-LM's arguments", megatron_obstacles, megatron_text},
    {"pytorch-csv", "the schedule alone, in PyTorch's pipelining CSV", csv_obstacles, csv_text},
    {"sbatch", "a Slurm script that starts it", sbatch_obstacles, sbatch_text},
    {"json", "stages, ranks and order of ops, for a launcher of your own", no_obstacles,
     plan_as_json},
}};

}  // namespace

std::span<const Exporter> exporters() { return kExporters; }

const Exporter& find_exporter(std::string_view name) {
  const auto* const found = std::ranges::find(kExporters, name, &Exporter::name);
  TANDEM_CHECK(found != kExporters.end(), name);
  return *found;
}

}  // namespace tandem
