// cublasLt on the machine of recorder.h: the stand-in of the tests of products. It has no algorithm
// where GELU is part of a product, so kernels of our own run, too.

#include "executor/cuda/kernels/cublaslt.h"

#include <utility>
#include <vector>

#include "tests/executor/cuda/fake_cublaslt.h"
#include "tests/executor/cuda/recorded/recorder.h"

namespace tandem::cuda {
namespace {

using recorded::kAsks;
using recorded::kDestroys;
using recorded::kIsOfLibrary;
using recorded::kMakes;
using recorded::kNeedsDevice;
using recorded::kSubmits;
using testing::cublaslt_fake::fake;
using testing::cublaslt_fake::FakeProduct;
using testing::cublaslt_fake::value_of;

cublasStatus_t queue(cudaStream_t stream, FakeProduct product) {
  const std::vector<const void*> used{
      product.a, product.b, product.d,
      value_of<void*>(product.attributes, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr)};
  const cudaError_t status = recorded::recorder().submit(
      stream, used, [product = std::move(product)] { product.compute(); });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

const CublasLt& stand_in() {
  static const CublasLt made = testing::cublaslt_fake::make_fake();
  return made;
}

/// How the machine records a function of the library's.
struct Recorded {
  const char* name = nullptr;
  unsigned kind = kAsks;
};
template <auto kFunction>
Recorded recorded_as;

template <auto kFunction, class... Arguments>
void record(CublasLt& library, cublasStatus_t (*CublasLt::* /*function*/)(Arguments...),
            Recorded as) {
  recorded_as<kFunction> = as;
  library.*kFunction = [](Arguments... arguments) {
    cublasStatus_t done = CUBLAS_STATUS_SUCCESS;
    const auto [name, kind] = recorded_as<kFunction>;
    const unsigned all = kind | kIsOfLibrary;
    const cudaError_t status = recorded::recorder().call(name, all, [&](recorded::Recorder&) {
      done = (stand_in().*kFunction)(arguments...);
      return cudaSuccess;
    });
    return status == cudaSuccess ? done : CUBLAS_STATUS_EXECUTION_FAILED;
  };
}

CublasLt make_recorded() {
  using L = CublasLt;
  fake.epilogues = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADA};
  fake.queue = queue;
  CublasLt made = stand_in();
  record<&L::create>(made, &L::create, {"cublasLtCreate", kMakes | kNeedsDevice});
  record<&L::destroy>(made, &L::destroy, {"cublasLtDestroy", kDestroys});
  record<&L::create_operation>(made, &L::create_operation, {"cublasLtMatmulDescCreate"});
  record<&L::destroy_operation>(made, &L::destroy_operation,
                                {"cublasLtMatmulDescDestroy", kDestroys});
  record<&L::set_of_operation>(made, &L::set_of_operation, {"cublasLtMatmulDescSetAttribute"});
  record<&L::create_layout>(made, &L::create_layout, {"cublasLtMatrixLayoutCreate"});
  record<&L::destroy_layout>(made, &L::destroy_layout, {"cublasLtMatrixLayoutDestroy", kDestroys});
  record<&L::create_preference>(made, &L::create_preference, {"cublasLtMatmulPreferenceCreate"});
  record<&L::destroy_preference>(made, &L::destroy_preference,
                                 {"cublasLtMatmulPreferenceDestroy", kDestroys});
  record<&L::set_of_preference>(made, &L::set_of_preference,
                                {"cublasLtMatmulPreferenceSetAttribute"});
  record<&L::find_algorithms>(made, &L::find_algorithms, {"cublasLtMatmulAlgoGetHeuristic"});
  record<&L::multiply>(made, &L::multiply, {"cublasLtMatmul", kSubmits | kNeedsDevice});
  return made;
}

}  // namespace

CublasLt load_cublaslt(std::span<const std::string> /*libraries*/) { return make_recorded(); }

std::vector<std::string> cublaslt_libraries() { return {}; }

const CublasLt& cublaslt() {
  static const CublasLt made = make_recorded();
  return made;
}

}  // namespace tandem::cuda
