#include "executor/data/data.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/random.h"
#include "core/text/embedded.h"
#include "executor/data/permutation.h"

namespace tandem {
namespace {

constexpr std::uint64_t kPlaceKey = key_of("data.place");
constexpr std::uint64_t kEpochKey = key_of("data.epoch");
constexpr std::uint64_t kInputKey = key_of("data.input");
constexpr std::uint64_t kExpectedKey = key_of("data.expected");

/// Integers from −bound to bound.
template <class T>
void fill_integers(std::uint64_t seed, std::uint64_t key, std::uint64_t first, std::uint64_t bound,
                   std::span<T> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t drawn = random_bits(seed, key, first + i) % (2 * bound + 1);
    values[i] = static_cast<T>(drawn) - static_cast<T>(bound);
  }
}

/// Near the golden section of `count`, so that multiples of it spread evenly modulo `count`, and
/// with no divisor in common, so that they reach all of it.
std::int64_t spreading_stride(std::int64_t count) {
  auto stride = static_cast<std::int64_t>(0.618 * static_cast<double>(count)) | 1;
  while (std::gcd(stride, count) != 1) ++stride;
  return stride;
}

/// The first byte of the held-out chapters: a heading, "Genesis 46", behind nine tenths.
std::size_t first_held_out() {
  const std::string_view text = shipped_text();
  const std::size_t heading = text.find("\nGenesis ", text.size() / 10 * 9);
  TANDEM_CHECK(heading != text.npos, text.size());
  return heading;
}

}  // namespace

// In the binary. TANDEM_SHIPPED_TEXT: its file.
TANDEM_EMBED(shipped_text, TANDEM_SHIPPED_TEXT);

Tokens shipped_training_tokens() {
  return Tokens::of_text(std::string(shipped_text().substr(0, first_held_out())),
                         "the shipped text");
}

Tokens shipped_held_out_tokens() {
  return Tokens::of_text(std::string(shipped_text().substr(first_held_out())),
                         "the end of the shipped text");
}

Data::Data(const ModelSpec& model, std::int32_t microbatch_size, std::uint64_t seed, Tokens tokens,
           SampleOrder order)
    : model_(model),
      microbatch_size_(microbatch_size),
      seed_(seed),
      tokens_(std::move(tokens)),
      order_(order) {
  if (model.architecture == Architecture::linear) return;
  if (tokens_.are_bytes() && model.vocabulary < 256) {
    throw InputError(fmt::format("model \"{}\": a vocabulary of {} can't hold byte tokens; 256 can",
                                 model.name, model.vocabulary));
  }
  tokens_.check_within(model.vocabulary);
  const std::int64_t needed = std::int64_t{model.sequence} + 1;
  if (tokens_.size() < needed) {
    throw InputError(
        fmt::format("{}: {} tokens are fewer than the {} of one sample of model \"{}\"",
                    tokens_.source(), tokens_.size(), needed, model.name));
  }
  if (order == SampleOrder::spread) stride_ = spreading_stride(distinct_samples());
}

Data::Data(const ModelSpec& model)
    : model_(model), microbatch_size_(1), seed_(0), order_(SampleOrder::spread) {}

void Data::set_text(std::span<const std::int32_t> slice) {
  TANDEM_CHECK(!slice.empty(), slice.size());
  text_.assign(slice.begin(), slice.end());
}

std::int64_t Data::distinct_samples() const { return (tokens_.size() - 1) / model_.sequence; }

std::int64_t Data::place_of(std::uint64_t number) const {
  if (order_ == SampleOrder::random) {
    const auto places = static_cast<std::uint64_t>(tokens_.size() - model_.sequence);
    return static_cast<std::int64_t>(random_bits(seed_, kPlaceKey, number) % places);
  }
  const auto samples = static_cast<std::uint64_t>(distinct_samples());
  if (order_ == SampleOrder::shuffled) {
    const std::uint64_t key = mix(kEpochKey ^ mix(number / samples));
    return static_cast<std::int64_t>(permuted(seed_, key, samples, number % samples)) *
           model_.sequence;
  }
  const std::uint64_t sample = number % samples * static_cast<std::uint64_t>(stride_) % samples;
  return static_cast<std::int64_t>(sample) * model_.sequence;
}

template <class T>
void Data::fill(std::int64_t k, Sample<T>& sample) const {
  fill(k, {.tokens = model_.sequence}, sample);
}

template <class T>
void Data::fill(std::int64_t k, const Slice& slice, Sample<T>& sample) const {
  if (!text_.empty()) {
    TANDEM_CHECK(std::ssize(text_) == slice.tokens, text_.size(), slice.tokens);
    sample.tokens = text_;
    return;
  }
  const std::int64_t begins = k * microbatch_size_ + shift_;
  TANDEM_CHECK(k >= 0 && begins >= 0, k, shift_);
  const auto first_sample = static_cast<std::uint64_t>(begins);
  const auto batch = static_cast<std::size_t>(microbatch_size_);
  const auto sequence = static_cast<std::size_t>(model_.sequence);
  const auto tokens = static_cast<std::size_t>(slice.tokens);
  const auto first = static_cast<std::size_t>(slice.context());
  TANDEM_CHECK(tokens > 0 && first + tokens <= sequence, first, tokens, sequence);
  if (model_.architecture == Architecture::linear) {
    const auto width = static_cast<std::size_t>(model_.width);
    sample.inputs.resize(batch * tokens * width);
    sample.expected.resize(batch * tokens * width);
    for (std::size_t row = 0; row < batch; ++row) {
      const std::size_t number = ((first_sample + row) * sequence + first) * width;
      const auto of_row = [&](std::vector<T>& values) {
        return std::span(values).subspan(row * tokens * width, tokens * width);
      };
      fill_integers(seed_, kInputKey, number, 1, of_row(sample.inputs));
      fill_integers(seed_, kExpectedKey, number, 2, of_row(sample.expected));
    }
    return;
  }
  sample.tokens.resize(batch * tokens);
  sample.targets.resize(batch * tokens);
  for (std::size_t row = 0; row < batch; ++row) {
    const std::int64_t place = place_of(first_sample + row) + static_cast<std::int64_t>(first);
    tokens_.copy(place, std::span(sample.tokens).subspan(row * tokens, tokens));
    tokens_.copy(place + 1, std::span(sample.targets).subspan(row * tokens, tokens));
  }
}

template void Data::fill<float>(std::int64_t, Sample<float>&) const;
template void Data::fill<double>(std::int64_t, Sample<double>&) const;
template void Data::fill<float>(std::int64_t, const Slice&, Sample<float>&) const;
template void Data::fill<double>(std::int64_t, const Slice&, Sample<double>&) const;

}  // namespace tandem
