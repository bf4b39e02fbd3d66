// Any text as PyTorch's pipelining CSV: a schedule that the same format brings back exactly, or
// diagnostics, never a crash.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/notation/pytorch_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tandem::Schedule schedule;
  try {
    schedule = tandem::parse_pytorch_csv(text, "s");
  } catch (const tandem::InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
    return 0;
  }
  const std::string printed = tandem::print_pytorch_csv(schedule);
  TANDEM_CHECK(tandem::parse_pytorch_csv(printed, "s") == schedule, printed);
  return 0;
}
