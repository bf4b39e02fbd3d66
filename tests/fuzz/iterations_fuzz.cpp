// Any text as measured iterations: rows that keep their promises, or diagnostics, never a crash.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/import/iterations.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto rows = tandem::parse_iterations(text, "s");
    TANDEM_CHECK(!rows.empty());
    for (const tandem::MeasuredIteration& row : rows) {
      TANDEM_CHECK(row.time.count() > 0 && row.microbatches >= 1 && row.devices() >= 1);
      TANDEM_CHECK(row.model.width % row.model.heads == 0, row.model.heads);
      TANDEM_CHECK(row.model.heads % row.tensor == 0, row.tensor);
      TANDEM_CHECK(row.model.blocks % row.depth == 0, row.depth);
    }
  } catch (const tandem::InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
  }
  return 0;
}
