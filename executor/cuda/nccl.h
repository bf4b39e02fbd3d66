#pragma once
// NCCL as communicators call it. It is found when it is first needed: a program that uses none of
// it starts where it is not. Here is no header of NCCL's or CUDA's: so a stand-in plays it where
// there is neither.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct ncclComm;     // NCCL's
struct CUstream_st;  // CUDA's

namespace tandem::cuda {

using NcclHandle = ncclComm*;
using GpuStream = CUstream_st*;
/// What ranks of one communicator know it by.
using NcclId = std::array<char, 128>;

/// NCCL's own numbers; others than these are failures, too.
enum class NcclResult : std::uint8_t {
  success = 0,
  gpu_failed = 1,
  system_failed = 2,
  invalid_usage = 5,
  remote_failed = 6,
  in_progress = 7,
};

/// A rank of a communicator.
struct CommunicatorPlace {
  std::string name;  // for errors
  int ranks = 1, rank = 0;
  int most_blocks = 0;  // of its kernels, which take multiprocessors while they wait; 0: any
};

/// The functions that communicators call, none of which blocks. From any thread.
class Nccl {
 public:
  Nccl() = default;
  virtual ~Nccl() = default;
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// "2.28.9".
  virtual std::string version() const = 0;
  virtual std::string describe(NcclResult result) const = 0;
  /// More of what failed last; may be empty.
  virtual std::string last_error(NcclHandle handle) const = 0;

  virtual NcclResult make_id(NcclId& id) = 0;
  virtual NcclResult init(NcclHandle& made, const NcclId& id, const CommunicatorPlace& place) = 0;
  /// All ranks of `parent` call it, in one order; those of one `part` get a communicator of their
  /// own, those of kNoPart none. `made` is written when the parent is no longer in progress.
  virtual NcclResult split(NcclHandle parent, int part, NcclHandle& made,
                           const CommunicatorPlace& place) = 0;
  static constexpr int kNoPart = -1;
  /// Of a communicator that is made: how many ranks it has, and which this is.
  virtual NcclResult size(NcclHandle handle, int& ranks, int& rank) = 0;
  /// Of what was given before.
  virtual NcclResult async_error(NcclHandle handle, NcclResult& state) = 0;
  virtual NcclResult finalize(NcclHandle handle) = 0;
  virtual NcclResult destroy(NcclHandle handle) = 0;
  virtual NcclResult abort(NcclHandle handle) = 0;

  virtual NcclResult group_start() = 0;
  virtual NcclResult group_end() = 0;
  // Bytes, so that any type may be sent.
  virtual NcclResult send(std::span<const std::byte> bytes, int to, NcclHandle handle,
                          GpuStream stream) = 0;
  virtual NcclResult receive(std::span<std::byte> into, int from, NcclHandle handle,
                             GpuStream stream) = 0;
  /// In place, over all ranks.
  virtual NcclResult sum(std::span<float> values, NcclHandle handle, GpuStream stream) = 0;
};

/// From the first of these libraries that is there; it stays loaded. Throws AbsentError, naming
/// what was looked for, the function that the library lacks, or its version if it is older than
/// the header that this was built with.
std::unique_ptr<Nccl> load_nccl(std::span<const std::string> libraries);

/// Where it may be: library.h; NCCL_HOME goes before CUDA's.
std::vector<std::string> nccl_libraries();

/// The process's, loaded at the first call. Throws AbsentError, also where this build has no code
/// for it.
Nccl& nccl();

}  // namespace tandem::cuda
