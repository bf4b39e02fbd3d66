#pragma once
// Op: one unit of work in a schedule's loop body, and the traits of its kinds.

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "core/base/ids.h"

namespace tandem {

enum class OpKind : std::uint8_t {
  forward,
  recompute,
  backward,         // whole backward: input- and weight-gradient
  backward_input,   // B of the zero-bubble papers, I of PyTorch
  backward_weight,  // W
  send_activation,
  send_gradient,
  reduce_tied,      // sum of the gradients of parameters that two parts share
  reduce_gradient,  // sum over the replicas of a part, and over the width
  reduce_norm,      // norm of all gradients of an update: a decision that all stages share
  update,
  validate,  // of an update that did not wait for its norm: keeps it, or makes it again
  evict,     // a stash, from the stage's device to its partner
  load,      // and back
};
inline constexpr std::size_t kOpKinds = 14;

/// How a kind moves through the placement.
enum class Flow : std::uint8_t {
  none,           // stays on its stage
  along_edges,    // from a stage to those that consume its output
  against_edges,  // back
  together,       // one instruction on the lanes of all its devices
  with_partner,   // between a device and its partner
};

struct OpTraits {
  OpKind kind;
  std::string_view name;
  std::string_view notation;           // in schedule notation; empty for what lower() derives
  Flow flow;                           // of the op's result
  std::optional<OpKind> carried_by{};  // the transfer that carries the result between devices
};

inline constexpr std::array<OpTraits, kOpKinds> kOpTraits{{
    {OpKind::forward, "forward", "f", Flow::along_edges, OpKind::send_activation},
    {OpKind::recompute, "recompute", "r", Flow::none},
    {OpKind::backward, "backward", "b", Flow::against_edges, OpKind::send_gradient},
    {OpKind::backward_input, "backward_input", "i", Flow::against_edges, OpKind::send_gradient},
    {OpKind::backward_weight, "backward_weight", "w", Flow::none},
    {OpKind::send_activation, "send_activation", "", Flow::along_edges},
    {OpKind::send_gradient, "send_gradient", "", Flow::against_edges},
    {OpKind::reduce_tied, "reduce_tied", "T", Flow::together},
    {OpKind::reduce_gradient, "reduce_gradient", "R", Flow::together},
    {OpKind::reduce_norm, "reduce_norm", "N", Flow::together},
    {OpKind::update, "update", "U", Flow::none},
    {OpKind::validate, "validate", "V", Flow::none},
    {OpKind::evict, "evict", "E", Flow::with_partner},
    {OpKind::load, "load", "L", Flow::with_partner},
}};

constexpr const OpTraits& traits(OpKind kind) { return kOpTraits[index(kind)]; }
constexpr std::string_view name(OpKind kind) { return traits(kind).name; }

/// A set of kinds, a bit each: loops over programs ask at every instruction, whose kind no
/// processor foresees, and a shift costs less than comparisons.
class KindSet {
 public:
  consteval KindSet(std::initializer_list<OpKind> kinds) {
    for (const OpKind kind : kinds) bits_ |= 1u << index(kind);
  }
  constexpr bool has(OpKind kind) const { return (bits_ >> index(kind)) & 1u; }
  friend consteval KindSet operator|(KindSet a, KindSet b) { return KindSet(a.bits_ | b.bits_); }

 private:
  explicit consteval KindSet(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};
static_assert(kOpKinds <= 32);

namespace kinds {
inline constexpr KindSet kStashMoves{OpKind::evict, OpKind::load};
inline constexpr KindSet kTransfers =
    kStashMoves | KindSet{OpKind::send_activation, OpKind::send_gradient};
inline constexpr KindSet kCollectives{OpKind::reduce_tied, OpKind::reduce_gradient,
                                      OpKind::reduce_norm};
inline constexpr KindSet kInputGradients{OpKind::backward, OpKind::backward_input};
inline constexpr KindSet kWeightGradients{OpKind::backward, OpKind::backward_weight};
inline constexpr KindSet kReadWeights =
    kInputGradients | KindSet{OpKind::forward, OpKind::recompute};
inline constexpr KindSet kCompute = kReadWeights | kWeightGradients;
inline constexpr KindSet kOptimizer{OpKind::update, OpKind::validate};
}  // namespace kinds

/// Moves a stash between a device and its partner. The device does both: it sends, and it fetches.
constexpr bool moves_stash(OpKind kind) { return kinds::kStashMoves.has(kind); }
/// Takes a link between two devices.
constexpr bool is_transfer(OpKind kind) { return kinds::kTransfers.has(kind); }
/// One instruction on the lanes of all its devices.
constexpr bool is_collective(OpKind kind) { return kinds::kCollectives.has(kind); }
/// Steps a stage's weights, or settles a step.
constexpr bool is_optimizer(OpKind kind) { return kinds::kOptimizer.has(kind); }
/// Runs a stage's kernels on one microbatch (or a span of them).
constexpr bool is_compute(OpKind kind) { return kinds::kCompute.has(kind); }
/// Runs on its device's compute lane, in the device's order; the other kinds have lanes of their
/// own.
constexpr bool on_compute_lane(OpKind kind) {
  return (kinds::kCompute | kinds::kOptimizer).has(kind);
}
/// Produces weight gradients.
constexpr bool makes_weight_gradient(OpKind kind) { return kinds::kWeightGradients.has(kind); }
/// Produces the gradient of the stage's input.
constexpr bool makes_input_gradient(OpKind kind) { return kinds::kInputGradients.has(kind); }
/// Reads the stage's weights, and so a version of them.
constexpr bool reads_weights(OpKind kind) { return kinds::kReadWeights.has(kind); }

/// One unit of work in a schedule's loop body. In body b it works on microbatch b·m + `microbatch`,
/// m being the schedule's microbatches a batch; instances outside the run's first and last
/// microbatch are switched off.
struct Op {
  OpKind kind = OpKind::forward;
  std::uint8_t group = 0;  // non-zero: one unit with adjacent ops of the same group. None starts
                           // before all have what they need, and none has ended before all have
  StageId stage{};
  std::int32_t microbatch = 0;  // offset, ≥ 0
  std::uint16_t span = 1;       // consecutive microbatches covered, this one last, within one batch
  std::uint16_t staleness = 0;  // weights used: those `staleness` updates of this stage before the
                                // update that will cover the microbatch; 2BW: 1
  friend auto operator<=>(const Op&, const Op&) = default;
};
static_assert(sizeof(Op) == 12);

namespace detail {
consteval bool traits_in_order() {
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    const OpTraits& row = kOpTraits[i];
    if (index(row.kind) != i || is_collective(row.kind) != (row.flow == Flow::together))
      return false;
    if (is_transfer(row.kind) + is_collective(row.kind) + on_compute_lane(row.kind) != 1)
      return false;
  }
  return true;
}
static_assert(traits_in_order());
}  // namespace detail

}  // namespace tandem
