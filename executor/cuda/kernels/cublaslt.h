#pragma once
// cublasLt, found when it is first needed: a program that multiplies nothing on a GPU starts where
// no library of CUDA is installed.

#include <span>
#include <string>
#include <vector>

#include <cublasLt.h>

namespace tandem::cuda {

/// The functions that products call.
struct CublasLt {
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_of_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
};

/// From the first of these libraries that is there; it stays loaded. Throws AbsentError, naming
/// what was looked for, or the function that the library lacks.
CublasLt load_cublaslt(std::span<const std::string> libraries);

/// Where the version of the headers may be: library.h.
std::vector<std::string> cublaslt_libraries();

/// The process's, loaded at the first call.
const CublasLt& cublaslt();

}  // namespace tandem::cuda
