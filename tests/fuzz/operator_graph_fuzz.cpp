// Any text as a graph of operators: edges between its nodes and numbers in their ranges, or
// diagnostics, never a crash.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/import/operator_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const tandem::OperatorGraph graph = tandem::parse_operator_graph("f", text);
    TANDEM_CHECK(!graph.nodes.empty() && graph.accelerators >= 0 && graph.processors >= 0);
    for (const auto& [from, to] : graph.edges)
      TANDEM_CHECK(from < graph.nodes.size() && to < graph.nodes.size(), from, to);
    for (const tandem::OperatorNode& node : graph.nodes)
      TANDEM_CHECK(node.accelerator_time >= 0.0 && node.processor_time >= 0.0 && node.bytes >= 0.0);
  } catch (const tandem::InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
  }
  return 0;
}
