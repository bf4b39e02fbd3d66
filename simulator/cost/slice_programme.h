#pragma once
// TeraPipe's dynamic programme (arXiv 2102.07988): into how many slices, and how long ones, a
// sequence is cut so that a pipeline is done with it soonest.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/units.h"
#include "core/model/slice_lengths.h"
#include "core/schedule/slicing.h"

namespace tandem {

/// What a stage takes for forward and backward of a part of each sequence of a microbatch, and for
/// the transfers of both.
using SliceTime = std::function<Duration(SequencePart)>;

struct FastestSlices {
  std::vector<std::int32_t> lengths;  // in tokens, the first slice's first
  Duration value{};                   // what is least

  Slicing slicing() const { return Slicing::of_lengths(lengths); }
};

/// The slices for which microbatches · Σ t + (stages − 1) · max t is least, t the time of each:
/// what TeraPipe's order takes on equal stages. Slices end at multiples of `step` tokens, and at
/// the sequence's end. Asks once for each pair of ends: (tokens / step)² / 2 times.
FastestSlices fastest_slices(std::int32_t tokens, std::int32_t step, std::int64_t stages,
                             std::int64_t microbatches, const SliceTime& time);

/// Of a model's sequences, in steps as TeraPipe's code takes them: multiples of 8 tokens and of
/// `multiple`, which keep products well shaped, and at most 64 of them. Throws InputError where its
/// sequences can't be sliced.
FastestSlices fastest_slices_of(const ModelSpec& model, std::int32_t multiple, std::int64_t stages,
                                std::int64_t microbatches, const SliceTime& time);

}  // namespace tandem
