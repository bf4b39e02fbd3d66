// Any text as Piper's JSON: at every degree a graph whose stages have costs that are read back
// equal, or diagnostics, never a crash.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/import/graph_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::int32_t tensor : {1, 3, 8}) {
    try {
      const tandem::LayerGraph graph = tandem::parse_piper_graph("f", text, tensor).graph;
      for (const auto& [from, to] : graph.edges) TANDEM_CHECK(from < to, from, to);
      const auto layers = static_cast<std::int32_t>(graph.layers.size());
      const tandem::StageCostFile costs = tandem::stage_costs_of(graph, {{0, layers}}, 1e9);
      TANDEM_CHECK(tandem::parse_costs("again", tandem::costs_text(costs)) == costs);
    } catch (const tandem::InputError& error) {
      TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
    }
  }
  return 0;
}
