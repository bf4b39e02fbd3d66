#pragma once
// --backend, --transport and --storage: what trains, and what it stores.

#include <string>

#include "core/memory/storage.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_storage_option(Options& options);
void add_backend_options(Options& options);

/// "cpu" or "cuda".
std::string backend_of(const Options& options);
Storage storage_of(const Options& options);

/// Throws UsageError for what the backend does not do.
void check_backend(const Options& options);

}  // namespace tandem::tools
