#pragma once
// Training data: tokens, or small integers for the linear model. Microbatch k is a pure function of
// (seed, k): there is no state to save, and the first and the last stage make theirs independently.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/model/model.h"
#include "executor/data/tokens.h"
#include "executor/layers/layer.h"
#include "executor/layers/slice.h"

namespace tandem {

/// The text in the binary: Genesis (executor/data/README.md).
std::string_view shipped_text();

/// Its two parts, as bytes: the last chapters, a tenth of it, are held out.
Tokens shipped_training_tokens();
Tokens shipped_held_out_tokens();

enum class SampleOrder : std::uint8_t {
  random,  // each sample begins at a place of its own, drawn by (seed, number)
  spread,  // the samples that lie side by side, each once before any twice, in an order that visits
           // all parts of the text early; the seed does not matter
  shuffled,  // the same samples, each once an epoch, in an order drawn by (seed, epoch)
};

/// May be shared by threads, but for what changes it.
class Data {
 public:
  /// For a language model. Throws InputError when a token is beyond the vocabulary, a text's
  /// vocabulary is smaller than 256, or the tokens are fewer than a sample and its targets. For the
  /// linear architecture the tokens are not used.
  Data(const ModelSpec& model, std::int32_t microbatch_size, std::uint64_t seed,
       Tokens tokens = shipped_training_tokens(), SampleOrder order = SampleOrder::random);

  /// Every microbatch is a slice of one text, without targets: for the model to go on with.
  explicit Data(const ModelSpec& model);
  /// What the next has of it: one token or more. Not while another thread fills samples.
  void set_text(std::span<const std::int32_t> slice);

  /// Fills `sample` with microbatch `k`, k ≥ 0 counted from the start of the run. Allocates only
  /// where `sample` is smaller than a microbatch.
  template <class T>
  void fill(std::int64_t k, Sample<T>& sample) const;

  const Tokens& tokens() const { return tokens_; }
  /// The same, but of each sample's tokens those of the slice alone.
  template <class T>
  void fill(std::int64_t k, const Slice& slice, Sample<T>& sample) const;

  /// The same data, of which each microbatch begins so many samples later, or earlier.
  void shift(std::int64_t samples) { shift_ += samples; }

  /// Samples that lie side by side, none sharing a token to be predicted with another.
  std::int64_t distinct_samples() const;

 private:
  /// Where sample `number` begins.
  std::int64_t place_of(std::uint64_t number) const;

  ModelSpec model_;
  std::int32_t microbatch_size_;
  std::uint64_t seed_;
  Tokens tokens_;
  SampleOrder order_;
  std::int64_t shift_ = 0;
  std::int64_t stride_ = 1;  // of SampleOrder::spread, in samples
  std::vector<std::int32_t> text_ = {};
};

/// A sample as the kernels of a device read it. In a task of the stream whose kernels do.
template <class B, class W>
SampleSpans<W> readable_sample(B& backend, typename B::Stream& stream, const Sample<W>& sample) {
  const auto readable = [&]<class U>(const std::vector<U>& values) {
    return backend.readable(stream, std::span<const U>(values));
  };
  return {readable(sample.tokens), readable(sample.targets), readable(sample.inputs),
          readable(sample.expected)};
}

}  // namespace tandem
