#pragma once
// Forwards alone: what a model says of tokens, by the pipeline that trains it. The program has
// forwards and their transfers, and runs on this machine's CPU; bits do not depend on the layout.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"
#include "executor/checkpoint/model_folder.h"
#include "executor/data/data.h"

namespace tandem {

/// How forwards are laid out.
struct ForwardLayout {
  std::vector<LayerRange> stages;  // one a device
  std::int32_t microbatches = 1;   // of a body, at the end of which the pipeline is empty
};

/// A stage on each device in a row; each microbatch once through all of them.
Program program_of_forwards(const ForwardLayout& layout);

/// The loss of each of samples 0 … count − 1 of `data`, the mean over its tokens: bit for bit what
/// training reports for the same weights. `on_samples` is told how many more are done; what it
/// throws ends the run. REQUIRES: `data` has one sample a microbatch; count ≥ 1.
std::vector<double> losses_of(const ModelFolder& folder, const ForwardLayout& layout,
                              const Data& data, std::int64_t count,
                              const std::function<void(std::int64_t)>& on_samples);

/// Chooses a token by what the model says of it, a number for each of the vocabulary; none: the
/// text ends. On the thread that called go_on().
using ChooseToken = std::function<bool(std::span<const float> logits)>;

/// Appends tokens to `tokens`, as long as `choose`, which appends one, says so and until there are
/// `length`. Each goes through the layers once: keys and values are kept, memory for `length` of
/// them. What `choose` is told depends on the prompt and the tokens added; with portable products,
/// on all tokens so far alone, whichever of them were the prompt. REQUIRES: one token or more;
/// `length` is no more than the model has learned positions, where it has any.
void go_on(const ModelFolder& folder, const std::vector<LayerRange>& stages,
           std::vector<std::int32_t>& tokens, std::int64_t length, const ChooseToken& choose);

}  // namespace tandem
