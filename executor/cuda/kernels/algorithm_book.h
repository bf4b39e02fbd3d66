#pragma once
// AlgorithmBook: by which algorithm a library computes each product. All devices of a run share it:
// equal products have equal bits wherever as many multiprocessors compute them.

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/files/profile_file.h"
#include "executor/backend/notice.h"

namespace tandem::cuda {

/// REQUIRES: there are times.
Duration median_of(std::vector<Duration> times);

/// Which of several is the quickest, by several times of each; the median counts, and one without
/// times can't be. The first stays unless another is quicker by 2 %: so that noise does not choose.
/// None where none can be.
std::optional<std::size_t> quickest(std::span<const std::vector<Duration>> times);

/// Bytes as hexadecimal digits, and back; none where they are not `size` bytes.
std::string hexadecimal(std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> bytes_of(const std::string& hexadecimal, std::size_t size);

/// Used by several threads.
class AlgorithmBook {
 public:
  using Choose = std::function<std::optional<ProductAlgorithm>()>;

  /// `measures`: what is not known is chosen by timing, which runs a product several times over its
  /// own memory. Only where results do not count. `notice`: told what is refused, once for all.
  explicit AlgorithmBook(std::vector<ProductAlgorithm> known = {}, bool measures = false,
                         Notice notice = {});

  bool measures() const { return measures_; }
  /// What is known of the product. Where it measures: else what `choose` gives, known from then on;
  /// one at a time.
  std::optional<ProductAlgorithm> algorithm_of(const std::string& product, const Choose& choose);
  /// The library does not take it any more.
  void refuse(const ProductAlgorithm& known, const std::string& library);
  /// In the order of their names.
  std::vector<ProductAlgorithm> all() const;

 private:
  const bool measures_;
  mutable std::mutex mutex_;
  std::map<std::string, ProductAlgorithm> known_;
  const Notice notice_;
  bool refused_ = false;
};

}  // namespace tandem::cuda
