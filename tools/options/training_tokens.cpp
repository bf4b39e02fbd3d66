#include "tools/options/training_tokens.h"

#include <fmt/format.h>

#include "tools/cli/notices.h"

namespace tandem::tools {

Tokens read_tokens(const std::string& path) {
  Tokens tokens = Tokens::of_file(path);
  if (const std::string_view raw = tokens.without_header(); !raw.empty()) {
    print_note(
        fmt::format("{} has no header: each 2 bytes are taken for a token, as in nanoGPT's "
                    "files",
                    raw));
  }
  return tokens;
}

void add_data_order_option(Options& options) {
  options.value("data-order", "ORDER",
                "random|shuffled: each sample anywhere in the data, or epochs in which each comes "
                "once (default random)");
}

SampleOrder data_order(const Options& options) {
  return options.choice("data-order", {"random", "shuffled"}) == "shuffled" ? SampleOrder::shuffled
                                                                            : SampleOrder::random;
}

}  // namespace tandem::tools
