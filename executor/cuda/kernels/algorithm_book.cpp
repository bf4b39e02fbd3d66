#include "executor/cuda/kernels/algorithm_book.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tandem::cuda {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

Duration median_of(std::vector<Duration> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

std::optional<std::size_t> quickest(std::span<const std::vector<Duration>> times) {
  constexpr std::int64_t kLead = 50;  // a fiftieth
  std::optional<std::size_t> best;
  Duration best_time{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].empty()) continue;
    const Duration time = median_of(times[i]);
    const bool is_first = !best;
    // Of those that beat the first, the very quickest.
    const bool beats =
        !is_first && (*best == 0 ? time < best_time - best_time / kLead : time < best_time);
    if (!is_first && !beats) continue;
    best = i;
    best_time = time;
  }
  return best;
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::optional<std::vector<std::byte>> bytes_of(const std::string& hexadecimal, std::size_t size) {
  if (hexadecimal.size() != 2 * size) return std::nullopt;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit_of(hexadecimal[2 * i]), low = digit_of(hexadecimal[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<std::byte>(16 * high + low));
  }
  return bytes;
}

AlgorithmBook::AlgorithmBook(std::vector<ProductAlgorithm> known, bool measures, Notice notice)
    : measures_(measures), notice_(std::move(notice)) {
  for (ProductAlgorithm& each : known) {
    std::string product = each.product;
    known_.emplace(std::move(product), std::move(each));
  }
}

std::optional<ProductAlgorithm> AlgorithmBook::algorithm_of(const std::string& product,
                                                            const Choose& choose) {
  const std::lock_guard lock(mutex_);
  if (const auto place = known_.find(product); place != known_.end()) return place->second;
  if (!measures_) return std::nullopt;
  std::optional<ProductAlgorithm> chosen = choose();
  if (chosen) known_.emplace(product, *chosen);
  return chosen;
}

void AlgorithmBook::refuse(const ProductAlgorithm& known, const std::string& library) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(refused_, true)) return;
  tell(notice_, fmt::format("the profile's algorithms for products are of {}, and {} does not take "
                            "them: it chooses anew, so bits differ from runs with the other",
                            known.library, library));
}

std::vector<ProductAlgorithm> AlgorithmBook::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<ProductAlgorithm> all;
  for (const auto& [product, algorithm] : known_) all.push_back(algorithm);
  return all;
}

}  // namespace tandem::cuda
