#pragma once
// Optimizer steps and the decision they wait for. A step reads the decision when it runs, so the
// host need not know it: scaling, clipping, the step, and a copy of the weights in bfloat16 are one
// pass.

#include <cmath>
#include <cstdint>

#include "executor/backend/step_rules.h"
#include "executor/cuda/kernels/bf16.h"
#include "executor/cuda/kernels/block.h"
#include "executor/cuda/kernels/pack.h"
#include "executor/cuda/kernels/range_table.h"

namespace tandem::cuda {

/// From sums of squares in ascending order: one thread, for they are few.
struct Decide {
  std::int64_t count;
  const double* squares;
  DecideNumbers numbers;
  const UpdateDecision* before;
  UpdateDecision* decision;
  ShownDecision shown;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    block.each_thread([&](int thread) {
      if (shown.squares != nullptr) {
        for (std::int64_t i = thread; i < count; i += block.threads())
          shown.squares[i] = squares[i];
      }
      if (thread != 0) return;
      *decision = tandem::decide(numbers, {squares, static_cast<std::size_t>(count)}, before);
      if (shown.decision != nullptr) *shown.decision = *decision;
    });
  }
};

/// What one thread of a block makes of the decision for all: it computes in double.
struct DecidedStep {
  StepFactors<float> factors;
  bool skips;
};

/// Calls `use` with the step as it was decided, and with the place of each pack of the elements
/// from `begin` to `end`.
template <class Block, class Use>
TANDEM_DEVICE void each_pack_as_decided(Block& block, const StepNumbers& numbers,
                                        std::int64_t begin, std::int64_t end, bool whole,
                                        const Use& use) {
  constexpr int kPack = kPackOf<float>;
  DecidedStep* const decided = block.template shared<DecidedStep>(1);
  block.each_thread([&](int thread) {
    if (thread != 0) return;
    *decided = {StepFactors<float>(numbers),
                numbers.decision != nullptr && numbers.decision->skip != 0.0};
  });
  block.each_thread([&](int thread) {
    const DecidedStep step = *decided;
    const std::int64_t stride = block.blocks() * block.threads() * kPack;
    for (std::int64_t i = begin + (block.index() * block.threads() + thread) * kPack; i < end;
         i += stride) {
      use(step, PackPlace<kPack>{i, end - i, whole});
    }
  });
}

template <class Rule, class A>
struct StepElements {
  static constexpr int kPack = kPackOf<float>;

  std::int64_t begin, end;  // of the elements that the ranges tell of
  const float *weights, *gradient;
  const A* change;  // of rules that are orthogonal, instead of the gradient
  float *first, *second;
  float *last_step, *out;  // null: delay is not corrected; the state alone is stepped
  A* rounded;              // null: not wanted
  // Of the weights made, what passes read (StepSpans); null: not wanted.
  A *forward_weights, *backward_weights;
  float* drift;
  bool keeps_state, whole;
  StepNumbers numbers;
  RangeTable decayed;

  template <class Block>
  TANDEM_DEVICE void operator()(Block& block) const {
    each_pack_as_decided(
        block, numbers, begin, end, whole,
        [&](const DecidedStep& decided, const PackPlace<kPack>& place) {
          Pack<kPack> before{}, taken{};
          if (drift != nullptr) before = place.load(weights);  // `out` may be the same
          const Pack<kPack> made =
              decided.skips ? place.load(weights) : step(decided.factors, place, taken);
          if (out != nullptr) place.store(out, made);
          if (rounded != nullptr) place.store(rounded, made);
          if (drift == nullptr) {
            predict(forward_weights, decided.factors.forward_ahead, place, made, taken);
            predict(backward_weights, decided.factors.backward_ahead, place, made, taken);
          } else if (!decided.skips) {
            correct(decided.factors, place, before, made);
          }
        });
  }

 private:
  TANDEM_DEVICE void correct(const StepFactors<float>& factors, const PackPlace<kPack>& place,
                             const Pack<kPack>& before, const Pack<kPack>& made) const {
    Pack<kPack> moved = place.load(drift), read{};
    for (int i = 0; i < kPack; ++i)
      read[i] = tandem::corrected(factors, before[i], made[i], moved[i]);
    place.store(drift, moved);
    place.store(backward_weights, read);
  }

  /// Of a step that is skipped there is no change.
  TANDEM_DEVICE void predict(A* plane, float ahead, const PackPlace<kPack>& place,
                             const Pack<kPack>& made, const Pack<kPack>& taken) const {
    if (plane == nullptr) return;
    Pack<kPack> read{};
    for (int i = 0; i < kPack; ++i) read[i] = tandem::predicted(ahead, made[i], taken[i]);
    place.store(plane, read);
  }

  /// The weights made, and what the rule took off them but for the learning rate.
  TANDEM_DEVICE Pack<kPack> step(const StepFactors<float>& factors, const PackPlace<kPack>& place,
                                 Pack<kPack>& taken) const {
    Pack<kPack> mean{}, square{}, before{}, made = place.load(weights);
    Pack<kPack> slope{};
    float scale = factors.scale;
    if constexpr (Rule::kOrthogonal) {
      slope = place.load(change);
      scale = factors.change_scale;
    } else {
      slope = place.load(gradient);
    }
    if constexpr (Rule::kStates > 0) mean = place.load(first);
    if constexpr (Rule::kStates > 1) square = place.load(second);
    if (last_step != nullptr) before = place.load(last_step);
    // Few packs have a range's end among them.
    const std::int64_t last = place.first + kPack - 1;
    const bool decays = decayed.contains(place.first);
    const bool alike =
        decays == decayed.contains(last) && decayed.begun_by(place.first) == decayed.begun_by(last);
    for (int i = 0; i < kPack; ++i) {
      taken[i] = Rule::change(factors, scale * slope[i], mean[i], square[i]);
      const bool own = alike ? decays : decayed.contains(place.first + i);
      const float decay = own ? factors.decay : 0.0F;
      made[i] = last_step == nullptr ? stepped(factors, decay, made[i], taken[i])
                                     : stepped_late(factors, decay, made[i], taken[i], before[i]);
    }
    if (!keeps_state) {
      if constexpr (Rule::kStates > 0) place.store(first, mean);
      if constexpr (Rule::kStates > 1) place.store(second, square);
      if (last_step != nullptr) place.store(last_step, before);
    }
    return made;
  }
};

}  // namespace tandem::cuda
