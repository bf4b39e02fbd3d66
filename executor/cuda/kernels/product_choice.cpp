// How products take the algorithms of an AlgorithmBook, and choose by timing what it lacks.

#include <cstring>

#include <fmt/format.h>

#include "executor/cuda/kernels/products.h"
#include "executor/cuda/runtime/check.h"
#include "executor/cuda/runtime/raii.h"

namespace tandem::cuda {
namespace {

constexpr int kCandidates = 8, kRuns = 5;

std::string name_of(const ColumnMajor& matrix) {
  return fmt::format("{}{} x {} by {}", matrix.transposed ? "transposed " : "", matrix.rows,
                     matrix.columns, matrix.leading);
}

std::string name_of(cudaDataType_t type) { return type == CUDA_R_16BF ? "bf16" : "f32"; }

}  // namespace

Duration time_by_events(cudaStream_t stream, const std::function<void()>& run) {
  const OwnedEvent start = make_event(cudaEventDefault), end = make_event(cudaEventDefault);
  const auto checked = [](cudaError_t status, const char* call) { cuda::check(status, call); };
  checked(cudaEventRecord(start.get(), stream), "cudaEventRecord");
  run();
  checked(cudaEventRecord(end.get(), stream), "cudaEventRecord");
  checked(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
  float ms = 0.0F;
  checked(cudaEventElapsedTime(&ms, start.get(), end.get()), "cudaEventElapsedTime");
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}

std::string Products::library_name() const {
  return fmt::format("cublasLt {}", library_.version());
}

void Products::settle(const Key& key, Plan& plan, const Run& run, cudaStream_t stream) const {
  const std::string share =
      key.multiprocessors == 0 ? "" : fmt::format(", on {} multiprocessors", key.multiprocessors);
  const std::string product = fmt::format(
      "{}; {}; into {}; {} into {}, epilogue {}{}, aligned {} {} {} {}{}", name_of(key.layout.left),
      name_of(key.layout.right), name_of(key.layout.result), name_of(key.factors),
      name_of(key.result), static_cast<int>(key.epilogue), key.adds ? ", added" : "",
      key.left_alignment, key.right_alignment, key.result_alignment, key.epilogue_alignment, share);
  const auto known = book_->algorithm_of(product, [&] {
    auto chosen = measure(key, plan, run, stream);
    if (chosen) chosen->product = product;
    return chosen;
  });
  if (!known) return;
  if (const auto algorithm = accept(key, plan, *known)) {
    plan.algorithm = *algorithm;
  } else {
    book_->refuse(*known, library_name());
  }
}

std::optional<ProductAlgorithm> Products::measure(const Key& key, const Plan& plan, const Run& run,
                                                  cudaStream_t stream) const {
  const std::vector<Algorithm> candidates = find_algorithms(key, plan, kCandidates);
  std::vector<std::vector<Duration>> times(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (run(candidates[i]) != CUBLAS_STATUS_SUCCESS) continue;  // the first loads it
    for (int j = 0; j < kRuns; ++j)
      times[i].push_back(timer_(stream, [&] { check(run(candidates[i]), "cublasLtMatmul"); }));
  }
  const std::optional<std::size_t> best = quickest(times);
  if (!best) return std::nullopt;
  return ProductAlgorithm{
      .library = library_name(),
      .algorithm = hexadecimal(std::as_bytes(std::span(&candidates[*best], 1))),
      .time = median_of(times[*best]),
      .first_time = times.front().empty() ? Duration{} : median_of(times.front()),
      .measured = static_cast<std::int32_t>(candidates.size())};
}

std::optional<Products::Algorithm> Products::accept(const Key& key, const Plan& plan,
                                                    const ProductAlgorithm& known) const {
  const auto bytes = bytes_of(known.algorithm, sizeof(Algorithm));
  if (known.library != library_name() || !bytes) return std::nullopt;
  Algorithm algorithm;
  std::memcpy(&algorithm, bytes->data(), sizeof algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = library_.check_algorithm(
      handle_.get(), plan.operation.get(), plan.left.get(), plan.right.get(), plan.result.get(),
      plan.result.get(), &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > algorithm_workspace(key).size())
    return std::nullopt;
  return algorithm;
}

}  // namespace tandem::cuda
