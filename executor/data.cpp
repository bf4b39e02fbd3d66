#include "executor/data.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "executor/random.h"

namespace tandem {
namespace {

constexpr std::uint64_t kPlaceKey = key_of("data.place");
constexpr std::uint64_t kInputKey = key_of("data.input");
constexpr std::uint64_t kExpectedKey = key_of("data.expected");

/// Integers from −bound to bound.
template <class T>
void fill_integers(std::uint64_t seed, std::uint64_t key, std::uint64_t first, std::uint64_t bound,
                   std::vector<T>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t drawn = random_bits(seed, key, first + i) % (2 * bound + 1);
    values[i] = static_cast<T>(drawn) - static_cast<T>(bound);
  }
}

}  // namespace

std::string read_text(const std::string& path) {
  std::error_code ignored;  // opening says what is wrong
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(fmt::format("{}: Is a directory", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) throw InputError(fmt::format("{}: can't be read to its end", path));
  if (text.empty()) throw InputError(fmt::format("{}: empty", path));
  return text;
}

Data::Data(const ModelSpec& model, std::int32_t microbatch_size, std::uint64_t seed,
           std::string text, const std::string& source)
    : model_(model), microbatch_size_(microbatch_size), seed_(seed), text_(std::move(text)) {
  if (model.architecture == Architecture::linear) return;
  if (model.vocabulary < 256) {
    throw InputError(fmt::format("model \"{}\": a vocabulary of {} can't hold byte tokens; 256 can",
                                 model.name, model.vocabulary));
  }
  const auto needed = static_cast<std::size_t>(model.sequence) + 1;
  if (text_.size() < needed) {
    throw InputError(fmt::format("{}: {} bytes are fewer than the {} of one sample of model \"{}\"",
                                 source, text_.size(), needed, model.name));
  }
}

template <class T>
void Data::fill(std::int64_t k, Sample<T>& sample) const {
  TANDEM_CHECK(k >= 0, k);
  const auto microbatch = static_cast<std::uint64_t>(k);
  const auto batch = static_cast<std::size_t>(microbatch_size_);
  const auto sequence = static_cast<std::size_t>(model_.sequence);
  if (model_.architecture == Architecture::linear) {
    const std::size_t size = batch * sequence * static_cast<std::size_t>(model_.width);
    sample.inputs.resize(size);
    sample.expected.resize(size);
    fill_integers(seed_, kInputKey, microbatch * size, 1, sample.inputs);
    fill_integers(seed_, kExpectedKey, microbatch * size, 2, sample.expected);
    return;
  }
  sample.tokens.resize(batch * sequence);
  sample.targets.resize(batch * sequence);
  const std::size_t places = text_.size() - sequence;
  for (std::size_t row = 0; row < batch; ++row) {
    const std::uint64_t bits = random_bits(seed_, kPlaceKey, microbatch * batch + row);
    const char* from = text_.data() + bits % places;
    for (std::size_t i = 0; i < sequence; ++i) {
      sample.tokens[row * sequence + i] = static_cast<unsigned char>(from[i]);
      sample.targets[row * sequence + i] = static_cast<unsigned char>(from[i + 1]);
    }
  }
}

template void Data::fill<float>(std::int64_t, Sample<float>&) const;
template void Data::fill<double>(std::int64_t, Sample<double>&) const;

}  // namespace tandem
