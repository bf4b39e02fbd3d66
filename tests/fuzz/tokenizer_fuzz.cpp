// Any text as a tokenizer.json: a tokenizer whose ids give the text back, or diagnostics.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "executor/data/tokenizer/tokenizer.h"

namespace tandem {

static void check_tokenizer(const std::string& json) {
  constexpr std::string_view kText =
      "In the  beginning, 12345\r\n\n it's <|endoftext|> \u00E9\u5317";
  try {
    const Tokenizer tokenizer("f", json);
    std::vector<std::int32_t> ids;
    Tokenizer::Encoder(tokenizer).encode(kText, ids);
    for (const std::int32_t id : ids) TANDEM_CHECK(0 <= id && id < tokenizer.vocabulary(), id);
    // A template may put tokens around it.
    TANDEM_CHECK(tokenizer.decode(ids).find(kText) != std::string::npos);
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty() && error.diagnostics().size() <= 101);
  }
}

}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::check_tokenizer({data, data + size});
  return 0;
}
