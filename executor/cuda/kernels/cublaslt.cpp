#include "executor/cuda/kernels/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "executor/cuda/library_places.h"

namespace tandem::cuda {
namespace {

template <class Function>
void find(void* library, const std::string& path, const char* name, Function& function) {
  void* const address = dlsym(library, name);
  if (address == nullptr) throw AbsentError(fmt::format("{} has no {}()", path, name));
  function = reinterpret_cast<Function>(address);
}

}  // namespace

CublasLt load_cublaslt(std::span<const std::string> libraries) {
  for (const std::string& path : libraries) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    CublasLt found;
    find(library, path, "cublasLtGetStatusName", found.status_name);
    find(library, path, "cublasLtCreate", found.create);
    find(library, path, "cublasLtDestroy", found.destroy);
    find(library, path, "cublasLtMatmulDescCreate", found.create_operation);
    find(library, path, "cublasLtMatmulDescDestroy", found.destroy_operation);
    find(library, path, "cublasLtMatmulDescSetAttribute", found.set_of_operation);
    find(library, path, "cublasLtMatrixLayoutCreate", found.create_layout);
    find(library, path, "cublasLtMatrixLayoutDestroy", found.destroy_layout);
    find(library, path, "cublasLtMatmulPreferenceCreate", found.create_preference);
    find(library, path, "cublasLtMatmulPreferenceDestroy", found.destroy_preference);
    find(library, path, "cublasLtMatmulPreferenceSetAttribute", found.set_of_preference);
    find(library, path, "cublasLtMatmulAlgoGetHeuristic", found.find_algorithms);
    find(library, path, "cublasLtMatmulAlgoCheck", found.check_algorithm);
    find(library, path, "cublasLtMatmul", found.multiply);
    find(library, path, "cublasLtGetVersion", found.version);
    return found;
  }
  throw AbsentError(fmt::format("cublasLt can't be loaded: no {}", fmt::join(libraries, ", no ")));
}

std::vector<std::string> cublaslt_libraries() {
  return library_places(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR));
}

const CublasLt& cublaslt() {
  static const CublasLt loaded = load_cublaslt(cublaslt_libraries());
  return loaded;
}

}  // namespace tandem::cuda
