#pragma once
// Training data: a text as byte tokens, or small integers for the linear model. Microbatch k is a
// pure function of (seed, k): there is no state to save, and the first and the last stage make
// theirs independently.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model.h"
#include "executor/layers/layer.h"

namespace tandem {

/// The text in the binary: Genesis (executor/data/README.md).
std::string_view shipped_text();

/// The whole file. Throws InputError when it can't be read, or is empty.
std::string read_text(const std::string& path);

/// Immutable: may be shared by threads.
class Data {
 public:
  /// For a language model: `text`, with `source` its name in messages. Throws InputError when the
  /// vocabulary is smaller than 256 or the text shorter than a sample and its targets. For the
  /// linear architecture the text is not used.
  Data(const ModelSpec& model, std::int32_t microbatch_size, std::uint64_t seed,
       std::string text = std::string(shipped_text()),
       const std::string& source = "the shipped text");

  /// Fills `sample` with microbatch `k`, k ≥ 0 counted from the start of the run. Allocates only
  /// where `sample` is smaller than a microbatch.
  template <class T>
  void fill(std::int64_t k, Sample<T>& sample) const;

 private:
  ModelSpec model_;
  std::int32_t microbatch_size_;
  std::uint64_t seed_;
  std::string text_;
};

}  // namespace tandem
