#pragma once
// NCCL, found when it is first needed: a program that uses none of it starts where it is not.

#include <span>
#include <string>
#include <vector>

#include <nccl.h>

#include "executor/cuda/runtime/library.h"

namespace tandem::cuda {

/// The functions that communicators call. Tests put others in their place.
struct Nccl {
  Library library = {};
  decltype(&ncclGetVersion) version = library["ncclGetVersion"];
  decltype(&ncclGetErrorString) error_string = library["ncclGetErrorString"];
  decltype(&ncclGetLastError) last_error = library["ncclGetLastError"];
  decltype(&ncclGetUniqueId) make_id = library["ncclGetUniqueId"];
  decltype(&ncclCommInitRankConfig) init = library["ncclCommInitRankConfig"];
  decltype(&ncclCommGetAsyncError) async_error = library["ncclCommGetAsyncError"];
  decltype(&ncclCommFinalize) finalize = library["ncclCommFinalize"];
  decltype(&ncclCommDestroy) destroy = library["ncclCommDestroy"];
  decltype(&ncclCommAbort) abort = library["ncclCommAbort"];
  decltype(&ncclGroupStart) group_start = library["ncclGroupStart"];
  decltype(&ncclGroupEnd) group_end = library["ncclGroupEnd"];
  decltype(&ncclSend) send = library["ncclSend"];
  decltype(&ncclRecv) receive = library["ncclRecv"];
  decltype(&ncclAllReduce) all_reduce = library["ncclAllReduce"];
};

/// From the first of these libraries that is there; it stays loaded. Throws AbsentError, naming
/// what was looked for, the function that the library lacks, or its version if it is older than
/// the header that this was built with.
Nccl load_nccl(std::span<const std::string> libraries);

/// Where it may be: library.h; NCCL_HOME goes before CUDA's.
std::vector<std::string> nccl_libraries();

/// The process's, loaded at the first call.
const Nccl& nccl();

/// "2.28.9".
std::string version_of(const Nccl& library);

}  // namespace tandem::cuda
