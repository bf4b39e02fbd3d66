#include "executor/cuda/kernels/cublaslt.h"

#include <fmt/format.h>

#include "executor/cuda/runtime/library.h"

namespace tandem::cuda {

CublasLt load_cublaslt(std::span<const std::string> libraries) {
  const Library library("cublasLt", libraries);
  CublasLt found;
  library.find("cublasLtGetStatusName", found.status_name);
  library.find("cublasLtCreate", found.create);
  library.find("cublasLtDestroy", found.destroy);
  library.find("cublasLtMatmulDescCreate", found.create_operation);
  library.find("cublasLtMatmulDescDestroy", found.destroy_operation);
  library.find("cublasLtMatmulDescSetAttribute", found.set_of_operation);
  library.find("cublasLtMatrixLayoutCreate", found.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", found.destroy_layout);
  library.find("cublasLtMatmulPreferenceCreate", found.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", found.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", found.set_of_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", found.find_algorithms);
  library.find("cublasLtMatmulAlgoCheck", found.check_algorithm);
  library.find("cublasLtMatmul", found.multiply);
  library.find("cublasLtGetVersion", found.version);
  return found;
}

std::vector<std::string> cublaslt_libraries() {
  return library_places(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR));
}

const CublasLt& cublaslt() {
  static const CublasLt loaded = load_cublaslt(cublaslt_libraries());
  return loaded;
}

}  // namespace tandem::cuda
