// NCCL is found while the program runs, and what is not there is named.

#include "executor/cuda/nccl.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "executor/cuda/cuda.h"

namespace tandem::cuda {
namespace {

std::optional<std::string> why_nccl_is_not_loaded(const std::vector<std::string>& libraries) {
  try {
    load_nccl(libraries);
  } catch (const AbsentError& error) {
    return error.what();
  }
  return std::nullopt;
}

TEST(Nccl, HasAllFunctionsWhereItIs) {
  if (const auto why = why_nccl_is_not_loaded(nccl_libraries())) GTEST_SKIP() << *why;
  EXPECT_THAT(nccl().version(), ::testing::MatchesRegex("2\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(find_nccl().version, nccl().version());
  EXPECT_EQ(find_nccl().why_absent, "");
  EXPECT_STREQ(nccl().describe(NcclResult::invalid_usage).c_str(),
               "invalid usage (run with NCCL_DEBUG=WARN for details)");
}

TEST(Nccl, SaysWhatIsMissing) {
  EXPECT_EQ(why_nccl_is_not_loaded({"libthat_is_not.so.7", "/nowhere/libneither.so"}),
            "NCCL can't be loaded: no libthat_is_not.so.7, no /nowhere/libneither.so");
  EXPECT_EQ(why_nccl_is_not_loaded({"libm.so.6"}), "libm.so.6 has no ncclGetVersion()");
}

}  // namespace
}  // namespace tandem::cuda
