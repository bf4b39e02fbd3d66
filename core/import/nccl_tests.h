#pragma once
// The text that all_reduce_perf of NVIDIA's nccl-tests prints (github.com/NVIDIA/nccl-tests): a
// header of comments that names the devices, then a row a message size,
//
//   # nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 …
//   #  Rank  0 Pid  63453 on node-000000 device  0 [0x00] A100-SXM4-40GB
//   #       size         count      type   redop    root     time   algbw   busbw #wrong     time …
//       33554432       8388608     float     sum      -1    361.0   92.96  162.67      0    357.5 …
//   # Avg bus bandwidth    : 59.3571
//
// with times in microseconds, out of place and, except in some builds, in place. Older versions
// have no column "root". Marks of mpirun --tag-output ("[1,0]<stdout>:") are passed over, wherever
// they are, and so are lines that are neither comments nor begin with a number.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/model/collectives.h"

namespace tandem {

struct NcclTestsRow {
  Bytes bytes = 0;
  Duration out_of_place{};
  std::optional<Duration> in_place = {};
  friend bool operator==(const NcclTestsRow&, const NcclTestsRow&) = default;
};

struct NcclTestsLog {
  CollectiveGroup group;
  std::vector<NcclTestsRow> rows;  // of at least a byte
};

/// Throws InputError with every diagnostic: what is malformed, cut off before its end, or, by the
/// bus bandwidth that it states, of another collective. `file` is for messages.
NcclTestsLog parse_nccl_tests(std::string_view text, std::string_view file);
NcclTestsLog read_nccl_tests(const std::string& path);

}  // namespace tandem
