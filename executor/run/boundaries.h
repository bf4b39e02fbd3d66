#pragma once
// Boundaries: where that lies which crosses from stage to stage, and who frees it (SlotKind).

#include <cstdint>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/memory/memory.h"
#include "core/schedule/op_kind.h"
#include "executor/run/neighbours.h"
#include "executor/stage/stage_state.h"

namespace tandem {

/// Of one pipeline. Holds nothing of its own: each device's thread may have one.
template <class B>
class Boundaries {
 public:
  using T = typename B::Scalar;
  using State = StageState<B>;
  using SlotUse = typename State::Ring::Use;

  /// `states`: null where a stage is run elsewhere. All of them must outlive this.
  Boundaries(const MicrobatchSequence& sequence, const Neighbours& neighbours,
             const Table<ReplicaId, State*>& states)
      : sequence_(sequence), neighbours_(neighbours), states_(states) {}

  /// What a transfer takes from its sender.
  SlotUse sent_from(State& s, OpKind kind, std::int64_t microbatch) const {
    return carries_output(kind) ? use(s, s.output, microbatch) : input_gradient_of(s, microbatch);
  }
  /// Where that goes at its receiver.
  SlotUse sent_to(State& s, OpKind kind, std::int64_t microbatch) const {
    return use(s, carries_output(kind) ? s.input : s.output, microbatch);
  }
  /// An activation takes a slot; a gradient comes to that of its output.
  static bool has_room(const SlotUse& to, OpKind kind) {
    return carries_output(kind) ? to.ring.is_free(to.use) : to.ring.holds(to.use);
  }
  /// Throws DeviceError where there is none.
  static std::span<T> make_room(const SlotUse& to, OpKind kind) {
    return carries_output(kind) ? to.acquire() : to.held();
  }

  /// What ops of a stage read of its neighbours; empty: it has none. Throws DeviceError where that
  /// has not arrived.
  std::span<const T> input_of(State& s, std::int64_t microbatch) const {
    const auto above = neighbours_.above(s.id, microbatch);
    if (!above) return {};
    if (neighbours_.share_device(s.id, *above))
      return use(*states_[*above], states_[*above]->output, microbatch).held();
    return arrived(s, s.input, microbatch, "input");
  }
  std::span<const T> output_gradient_of(State& s, std::int64_t microbatch) const {
    const auto below = neighbours_.below(s.id, microbatch);
    if (!below) return {};
    if (neighbours_.share_device(s.id, *below))
      return input_gradient_of(*states_[*below], microbatch).held();
    return arrived(s, s.output, microbatch, "gradient");
  }
  /// Where a stage that has one below writes what it makes, and where that is.
  std::span<T> take_output(State& s, std::int64_t microbatch) const {
    return use(s, s.output, microbatch).acquire();
  }
  std::span<T> output_of(State& s, std::int64_t microbatch) const {
    return use(s, s.output, microbatch).held();
  }
  /// Where a stage that has one above is to write the gradient of its input: maybe over that of its
  /// output.
  std::span<T> take_input_gradient(State& s, std::int64_t microbatch) const {
    const SlotUse made = input_gradient_of(s, microbatch);
    return sequence_.makes_gradient_in_output(s.id, microbatch) ? made.held() : made.acquire();
  }

  /// What a forward read that no backward will read.
  void release_after_forward(State& s, std::int64_t microbatch) const {
    const auto above = neighbours_.above(s.id, microbatch);
    if (!above) return;
    if (neighbours_.share_device(s.id, *above))
      return use(*states_[*above], states_[*above]->output, microbatch).release();
    use(s, s.input, microbatch).release();
  }

  /// What a stage read, when it has made the last gradient of a microbatch.
  void release_after_backward(State& s, std::int64_t microbatch) const {
    const auto above = neighbours_.above(s.id, microbatch),
               below = neighbours_.below(s.id, microbatch);
    if (above && neighbours_.share_device(s.id, *above))
      states_[*above]->output.release(sequence_(*above, microbatch), 2);
    else if (above)
      use(s, s.input, microbatch).release();
    if (!below) return;
    // Its transfer has ended, for the gradient came back; a stage of this device may still read it.
    const bool local = neighbours_.share_device(s.id, *below);
    if (local) input_gradient_of(*states_[*below], microbatch).release();
    // Who takes the gradient that was made in the output's slot frees that.
    if (!above || !sequence_.makes_gradient_in_output(s.id, microbatch))
      s.output.release(sequence_(s.id, microbatch), local ? 2 : 1);
  }

 private:
  /// A slice's is as long as its tokens are many.
  SlotUse use(State& s, typename State::Ring& ring, std::int64_t microbatch) const {
    const std::int64_t size = s.stage_of(microbatch).sizes().boundary;
    return {ring, sequence_(s.id, microbatch), static_cast<std::size_t>(size)};
  }
  SlotUse input_gradient_of(State& s, std::int64_t microbatch) const {
    const bool over_output = sequence_.makes_gradient_in_output(s.id, microbatch);
    return use(s, over_output ? s.output : s.input_gradient, microbatch);
  }
  std::span<const T> arrived(State& s, typename State::Ring& sent, std::int64_t microbatch,
                             std::string_view what) const {
    const SlotUse there = use(s, sent, microbatch);
    if (!sent.has_landed(there.use)) {
      throw DeviceError(fmt::format("stage {}: the {} of microbatch {} has not arrived",
                                    index(s.id), what, microbatch));
    }
    return there.held();
  }

  const MicrobatchSequence& sequence_;
  const Neighbours& neighbours_;
  const Table<ReplicaId, State*>& states_;
};

}  // namespace tandem
