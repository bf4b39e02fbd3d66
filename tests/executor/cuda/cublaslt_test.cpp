// cublasLt is found while the program runs, and what is not there is named.

#include "executor/cuda/kernels/cublaslt.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem::cuda {
namespace {

std::optional<std::string> why_not_loaded(const std::vector<std::string>& libraries) {
  try {
    load_cublaslt(libraries);
  } catch (const AbsentError& error) {
    return error.what();
  }
  return std::nullopt;
}

TEST(CublasLt, HasAllFunctionsWhereItIs) {
  if (const auto why = why_not_loaded(cublaslt_libraries())) GTEST_SKIP() << *why;
  const CublasLt& library = cublaslt();
  EXPECT_STREQ(library.status_name(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(library.create_preference(&preference), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(library.destroy_preference(preference), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLt, SaysWhatIsMissing) {
  EXPECT_EQ(why_not_loaded({"libthat_is_not.so.7", "/nowhere/libneither.so"}),
            "cublasLt can't be loaded: no libthat_is_not.so.7, no /nowhere/libneither.so");
  EXPECT_EQ(why_not_loaded({"libm.so.6"}), "libm.so.6 has no cublasLtGetStatusName()");
}

}  // namespace
}  // namespace tandem::cuda
