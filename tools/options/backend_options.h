#pragma once
// --backend, --transport and --storage: what trains, by what its devices hand one another what they
// send, and what it stores. The rows are executor/backends.h's. --kernels and --products: which
// code computes the products of matrices, and from which numbers.

#include <string>

#include "core/memory/storage.h"
#include "executor/backends.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_backend_option(Options& options);
/// All three.
void add_backend_options(Options& options);

const BackendTraits& backend_of(const Options& options);
Storage storage_of(const Options& options);
Storage storage_of(const OptionValue& value);
/// TrainingSetup::by_messages.
bool by_messages(const Options& options);

/// Throws UsageError for what the backend does not do.
void check_backend(const Options& options);

void add_kernel_options(Options& options);

/// To be called before anything is computed. Throws UsageError, or AbsentError for what this build
/// or machine does not have. `on_host`: else the backend rounds factors itself, whatever this
/// processor can.
void choose_kernels(const Options& options, bool on_host);

}  // namespace tandem::tools
