#pragma once
// --data and --validation-data: what a run trains or is judged on.

#include <string>

#include "executor/data/data.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// Tokens of a text, a token file or a folder of token files; notes which have no header, as
/// nothing then says that they are tokens. Throws InputError.
Tokens read_tokens(const std::string& path);

/// --data-order.
void add_data_order_option(Options& options);
SampleOrder data_order(const Options& options);

}  // namespace tandem::tools
