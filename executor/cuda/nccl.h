#pragma once
// NCCL, found when it is first needed: a program that uses none of it starts where it is not.

#include <span>
#include <string>
#include <vector>

#include <nccl.h>

namespace tandem::cuda {

/// The functions that communicators call. Tests put others in their place.
struct Nccl {
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGetUniqueId) make_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
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
