#pragma once
// What trains, as options. --backend, --transport and --storage: by what its devices hand one
// another what they send, and what it stores; the rows are executor/backends.h's. --kernels and
// --products: which code computes the products of matrices, and from which numbers. The optimizer
// and its learning-rate schedule.

#include <cstdint>

#include "core/memory/storage.h"
#include "executor/backends.h"
#include "executor/ranks/rank_place.h"
#include "executor/stage/optimizer.h"
#include "tools/cli/options.h"

namespace tandem::tools {

void add_backend_option(Options& options);
/// All three.
void add_backend_options(Options& options);

const BackendTraits& backend_of(const Options& options);
Storage storage_of(const Options& options);
Storage storage_of(const OptionValue& value);
/// Throws UsageError where the transport is not one between ranks, though there are several, or is
/// one alone, though there are not, or of another launcher; AbsentError where it is not here.
/// `place`: null where there is one process.
void check_ranks(const Options& options, const RankPlace* place);
/// What the transport needs of the process, before its backend is asked for anything.
void prepare_transport(const Options& options);
/// TrainingSetup::by_messages.
bool by_messages(const Options& options);

/// Throws UsageError where the backend does not store so.
void check_storage(const Options& options);

/// Throws UsageError for what the backend does not do.
void check_backend(const Options& options);

void add_kernel_options(Options& options);

/// To be called before anything is computed. Throws UsageError, or AbsentError for what this build
/// or machine does not have. `on_host`: else the backend rounds factors itself, whatever this
/// processor can.
void choose_kernels(const Options& options, bool on_host);

/// What --optimizer names: adamw, nadam, muon, momentum or sgd.
OptimizerKind optimizer_kind(const OptionValue& value);

/// What --delay-correction names: none, error-feedback or error-feedback-with-decay.
DelayCorrection delay_correction(const OptionValue& value);

/// --learning-rate, --lr-schedule and what goes with it, --weight-decay, --rate-annealing, and what
/// muon reads.
void add_optimizer_options(Options& options);

/// For a run of `steps` updates of a schedule that corrects weights for their delays, or does not.
/// Throws UsageError for an option that is not read.
OptimizerConfig optimizer_config(const Options& options, Optimizer optimizer, std::int64_t steps,
                                 bool corrects);

}  // namespace tandem::tools
