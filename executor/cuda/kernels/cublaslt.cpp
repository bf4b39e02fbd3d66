#include "executor/cuda/kernels/cublaslt.h"

#include <fmt/format.h>

namespace tandem::cuda {

CublasLt load_cublaslt(std::span<const std::string> libraries) {
  return {.library = Library("cublasLt", libraries)};
}

std::vector<std::string> cublaslt_libraries() {
  return library_places(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR));
}

const CublasLt& cublaslt() {
  static const CublasLt loaded = load_cublaslt(cublaslt_libraries());
  return loaded;
}

}  // namespace tandem::cuda
