#include "core/import/importers.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/import/hugging_face.h"
#include "core/import/topology_parts.h"
#include "core/notation/pytorch_csv.h"

namespace tandem {

namespace {

PiperGraph parse_pipedream(const std::string& file, std::string text, std::int32_t /*tensor*/) {
  return {.graph = parse_layer_graph(file, text)};
}

constexpr std::array<Importer, 9> kImporters{{
    {.name = "pytorch-csv",
     .help = "PyTorch's pipelining CSV, old and new",
     .read = parse_pytorch_csv,
     .detects = is_pytorch_csv},
    {.name = "hugging-face",
     .help = "a model's config.json",
     .read = parse_hugging_face,
     .detects = is_hugging_face},
    {.name = "megatron",
     .help = "its arguments",
     .read = parse_noted_megatron,
     .detects = is_megatron,
     .run = parse_megatron_run},
    {.name = "pipedream", .help = "graph.txt, as costs of --stages", .read = parse_pipedream},
    {.name = "piper",
     .help = "layers at tensor degrees, as costs of --stages, too",
     .read = parse_piper_graph,
     .by_tensor_degree = true},
    {.name = "nvidia-smi", .help = "topo -m", .read = parse_nvidia_smi, .detects = is_nvidia_smi},
    {.name = "nccl-xml",
     .help = "NCCL_TOPO_DUMP_FILE",
     .read = parse_nccl_xml,
     .detects = is_nccl_xml},
    {.name = "astra-sim", .help = "network yml", .read = parse_astra_sim, .detects = is_astra_sim},
    {.name = "nccl-tests", .help = "logs of all_reduce_perf", .read = parse_nccl_tests},
}};

}  // namespace

std::span<const Importer> importers() { return kImporters; }

const Importer& find_importer(std::string_view name) {
  const auto found = std::ranges::find(kImporters, name, &Importer::name);
  TANDEM_CHECK(found != kImporters.end(), name);
  return *found;
}

}  // namespace tandem
