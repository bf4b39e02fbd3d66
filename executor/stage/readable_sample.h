#pragma once
// A sample of the data as the kernels of a device read it.

#include <cstdint>
#include <span>
#include <vector>

#include "executor/data/data.h"
#include "executor/layers/layer.h"

namespace tandem {

/// In a task of the stream whose kernels read it.
template <class B, class W>
SampleSpans<W> readable_sample(B& backend, typename B::Stream& stream, const Sample<W>& sample) {
  const auto readable = [&]<class U>(const std::vector<U>& values) {
    return backend.readable(stream, std::span<const U>(values));
  };
  return {readable(sample.tokens), readable(sample.targets), readable(sample.inputs),
          readable(sample.expected)};
}

}  // namespace tandem
