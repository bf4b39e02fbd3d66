// Any text as a log of nccl-tests: devices and times that are ones, or diagnostics, never a crash.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/import/nccl_tests.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tandem::NcclTestsLog log = tandem::parse_nccl_tests(text, "s");
    const tandem::CollectiveGroup& group = log.group;
    TANDEM_CHECK(group.nodes >= 1 && group.least_per_node >= 1 && group.per_thread >= 1);
    TANDEM_CHECK(group.nodes * group.least_per_node <= group.devices, group.devices);
    TANDEM_CHECK(!log.rows.empty());
    for (const tandem::NcclTestsRow& row : log.rows) {
      TANDEM_CHECK(row.bytes > 0 && row.out_of_place.count() > 0, row.bytes);
      TANDEM_CHECK(!row.in_place || row.in_place->count() > 0, row.bytes);
    }
  } catch (const tandem::InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
  }
  return 0;
}
