#pragma once
// cublasLt, found when it is first needed: a program that multiplies nothing on a GPU starts where
// no library of CUDA is installed.

#include <span>
#include <string>
#include <vector>

#include <cublasLt.h>

#include "executor/cuda/runtime/library.h"

namespace tandem::cuda {

/// The functions that products call.
struct CublasLt {
  Library library = {};
  decltype(&cublasLtGetStatusName) status_name = library["cublasLtGetStatusName"];
  decltype(&cublasLtCreate) create = library["cublasLtCreate"];
  decltype(&cublasLtDestroy) destroy = library["cublasLtDestroy"];
  decltype(&cublasLtMatmulDescCreate) create_operation = library["cublasLtMatmulDescCreate"];
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = library["cublasLtMatmulDescDestroy"];
  decltype(&cublasLtMatmulDescSetAttribute) set_of_operation =
      library["cublasLtMatmulDescSetAttribute"];
  decltype(&cublasLtMatrixLayoutCreate) create_layout = library["cublasLtMatrixLayoutCreate"];
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = library["cublasLtMatrixLayoutDestroy"];
  decltype(&cublasLtMatmulPreferenceCreate) create_preference =
      library["cublasLtMatmulPreferenceCreate"];
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference =
      library["cublasLtMatmulPreferenceDestroy"];
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference =
      library["cublasLtMatmulPreferenceSetAttribute"];
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms =
      library["cublasLtMatmulAlgoGetHeuristic"];
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm = library["cublasLtMatmulAlgoCheck"];
  decltype(&cublasLtMatmul) multiply = library["cublasLtMatmul"];
  decltype(&cublasLtGetVersion) version = library["cublasLtGetVersion"];
};

/// From the first of these libraries that is there; it stays loaded. Throws AbsentError, naming
/// what was looked for, or the function that the library lacks.
CublasLt load_cublaslt(std::span<const std::string> libraries);

/// Where the version of the headers may be: library.h.
std::vector<std::string> cublaslt_libraries();

/// The process's, loaded at the first call.
const CublasLt& cublaslt();

}  // namespace tandem::cuda
