#pragma once
// OpKind and the row of each kind: its names, how it moves, what prices it, how it looks.
// Only lowering, verification, slots and the device's machine know what a kind means.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/ids.h"

namespace tandem {

/// What an op does. Its row, OpTraits, says all but what that means.
enum class OpKind : std::uint8_t {
  forward,
  recompute,
  backward,         // whole backward: input- and weight-gradient
  backward_input,   // B of the zero-bubble papers, I of PyTorch
  backward_weight,  // W
  send_activation,
  send_gradient,
  reduce_tied,      // sum of the gradients of parameters that two stages share
  reduce_gradient,  // sum over the replicas of a stage, and over the width
  reduce_norm,      // norm of all gradients of an update: a decision that all stages share
  update,
  validate,  // of an update that did not wait for its norm: keeps it, or makes it again
  evict,     // a stash, from the stage's device to its partner
  load,      // and back
};
inline constexpr std::size_t kOpKinds = 14;

/// Where an op of a kind runs, and what it takes.
enum class OpRole : std::uint8_t {
  compute,     // runs a stage's kernels on one microbatch (or a span of them)
  transfer,    // takes a link between two devices
  collective,  // one instruction on the lanes of all its devices
  optimizer,   // steps a stage's weights, or settles a step
};

/// How a kind moves through the placement.
enum class Flow : std::uint8_t {
  none,           // stays on its stage
  along_edges,    // from a stage to those that consume its output
  against_edges,  // back
  together,       // one instruction on the lanes of all its devices
  with_partner,   // between a device and its partner
};

/// The price of a kind: on the compute lane, one of its stage's times, in their order.
enum class Price : std::uint8_t {
  forward,
  recompute,
  backward,
  backward_input,
  backward_weight,
  update,
  transfer,     // a boundary over a link
  stash,        // a stash over a link
  tied_sum,     // of tied gradients
  replica_sum,  // of a stage's gradients
  norm,
};

/// How a kind is called.
struct OpNames {
  OpKind kind;
  std::string_view name;
  std::string_view notation;   // in schedule notation; empty for what lower() derives
  std::string_view pytorch{};  // in PyTorch's schedules; empty where they have no word for it
  std::string_view letter{};   // in titles, before a number; empty: the name itself
};

/// What it takes, and where its result goes.
struct OpCourse {
  OpRole role;
  Flow flow;  // of the op's result
  Price price;
  std::optional<OpKind> carried_by{};  // the transfer that carries the result between devices
};

/// What it does to weights and gradients, and how often.
struct OpEffects {
  bool reads_weights = false;
  bool makes_input_gradient = false;
  bool makes_weight_gradient = false;
  bool makes_version = false;  // of its stage's weights
  bool repeats = false;        // work done before: not counted as useful
  bool spans = false;          // several microbatches as one op: its price counts them
  bool fetches = false;        // of a transfer: to the stage's device, not from it
};

/// How it is shown to people.
struct OpLooks {
  std::string_view title;   // in legends
  std::string_view phrase;  // before "microbatch 3"; empty where no microbatch says which it is
  std::string_view colour;  // in pictures and on the page
  std::string_view viewer;  // the name of the colour that chrome://tracing has nearest to it
  bool hatch = false;       // a second sign besides the colour
  char fill = 0;            // of its boxes in pictures of text; 0: it is not drawn there
};

/// What is known of a kind without knowing what it means.
struct OpTraits : OpNames, OpCourse, OpEffects, OpLooks {};

/// Colours are of Okabe and Ito's palette, which people of any colour vision tell apart, and some
/// more; two kinds of one colour differ by a hatch.
inline constexpr std::array<OpTraits, kOpKinds> kOpTraits{{
    {{OpKind::forward, "forward", "f", "F", "F"},
     {OpRole::compute, Flow::along_edges, Price::forward, OpKind::send_activation},
     {.reads_weights = true},
     {"forward", "forward of", "#56b4e9", "rail_response", false, ' '}},
    {{OpKind::recompute, "recompute", "r", "", "R"},
     {OpRole::compute, Flow::none, Price::recompute},
     {.reads_weights = true, .repeats = true},
     {"recomputation", "recomputation of", "#f0e442", "startup", false, '~'}},
    {{OpKind::backward, "backward", "b", "B", "B"},
     {OpRole::compute, Flow::against_edges, Price::backward, OpKind::send_gradient},
     {.reads_weights = true, .makes_input_gradient = true, .makes_weight_gradient = true},
     {"backward", "backward of", "#e69f00", "thread_state_iowait", false, '-'}},
    {{OpKind::backward_input, "backward_input", "i", "I", "I"},
     {OpRole::compute, Flow::against_edges, Price::backward_input, OpKind::send_gradient},
     {.reads_weights = true, .makes_input_gradient = true},
     {"input-gradient", "input-gradient of", "#f5c66e", "cq_build_running", false, '-'}},
    {{OpKind::backward_weight, "backward_weight", "w", "W", "W"},
     {OpRole::compute, Flow::none, Price::backward_weight},
     {.makes_weight_gradient = true, .spans = true},
     {"weight-gradient", "weight-gradient of", "#009e73", "rail_load", true, '='}},
    {{OpKind::send_activation, "send_activation", "", "SEND_F"},
     {OpRole::transfer, Flow::along_edges, Price::transfer},
     {},
     {"activation on a link", "activation of", "#0072b2", "thread_state_runnable"}},
    {{OpKind::send_gradient, "send_gradient", "", "SEND_B"},
     {OpRole::transfer, Flow::against_edges, Price::transfer},
     {},
     {"gradient on a link", "gradient of", "#d55e00", "rail_animation"}},
    {{OpKind::reduce_tied, "reduce_tied", "T"},
     {OpRole::collective, Flow::together, Price::tied_sum},
     {},
     {"sum of tied gradients", "", "#8c510a", "thread_state_unknown"}},
    {{OpKind::reduce_gradient, "reduce_gradient", "R"},
     {OpRole::collective, Flow::together, Price::replica_sum},
     {},
     {"sum over replicas", "", "#a05195", "detailed_memory_dump", true}},
    {{OpKind::reduce_norm, "reduce_norm", "N"},
     {OpRole::collective, Flow::together, Price::norm},
     {},
     {"norm of all gradients", "", "#6b4c9a", "light_memory_dump"}},
    {{OpKind::update, "update", "U", "", "U"},
     {OpRole::optimizer, Flow::none, Price::update},
     {.makes_version = true},
     {"update", "", "#cc79a7", "cq_build_failed", false, 'U'}},
    {{OpKind::validate, "validate", "V", "", "V"},
     {OpRole::optimizer, Flow::none, Price::update},  // goes through the state once more
     {},
     {"validation of an update", "", "#cc79a7", "thread_state_uninterruptible", true, 'V'}},
    {{OpKind::evict, "evict", "E"},
     {OpRole::transfer, Flow::with_partner, Price::stash},
     {},
     {"stash to the partner", "stash to the partner,", "#8a8f98", "generic_work"}},
    {{OpKind::load, "load", "L"},
     {OpRole::transfer, Flow::with_partner, Price::stash},
     {.fetches = true},
     {"stash back", "stash back,", "#8a8f98", "grey", true}},
}};

/// The kind's row.
constexpr const OpTraits& traits(OpKind kind) { return kOpTraits[index(kind)]; }
/// "forward", "send_activation", …, as in traces and JSON.
constexpr std::string_view name(OpKind kind) { return traits(kind).name; }

/// The kinds whose rows fulfil a condition, a bit each: loops over programs ask at every
/// instruction, whose kind no processor foresees, and a shift costs less than a row of the table.
class KindSet {
 public:
  template <class Condition>
  explicit consteval KindSet(Condition holds) {
    for (const OpTraits& row : kOpTraits) bits_ |= std::uint32_t{holds(row)} << index(row.kind);
  }
  constexpr bool has(OpKind kind) const { return (bits_ >> index(kind)) & 1u; }

 private:
  std::uint32_t bits_ = 0;
};
static_assert(kOpKinds <= 32);

namespace kinds {
using Row = const OpTraits&;
inline constexpr KindSet kTransfers([](Row row) { return row.role == OpRole::transfer; });
inline constexpr KindSet kOutputs([](Row row) {
  return row.role == OpRole::compute && row.flow == Flow::along_edges;
});
inline constexpr KindSet kOutputTransfers([](Row row) {
  return row.role == OpRole::transfer && row.flow == Flow::along_edges;
});
inline constexpr KindSet kRepeats([](Row row) { return row.repeats; });
inline constexpr KindSet kReplicaSums([](Row row) { return row.price == Price::replica_sum; });
inline constexpr KindSet kTiedSums([](Row row) { return row.price == Price::tied_sum; });
inline constexpr KindSet kNorms([](Row row) { return row.price == Price::norm; });
inline constexpr KindSet kStashMoves([](Row row) { return row.flow == Flow::with_partner; });
inline constexpr KindSet kFetches([](Row row) { return row.fetches; });
inline constexpr KindSet kCollectives([](Row row) { return row.role == OpRole::collective; });
inline constexpr KindSet kInputGradients([](Row row) { return row.makes_input_gradient; });
inline constexpr KindSet kWeightGradients([](Row row) { return row.makes_weight_gradient; });
inline constexpr KindSet kReadWeights([](Row row) { return row.reads_weights; });
inline constexpr KindSet kCompute([](Row row) { return row.role == OpRole::compute; });
inline constexpr KindSet kUseful([](Row row) {
  return row.role == OpRole::compute && !row.repeats;
});
inline constexpr KindSet kOptimizer([](Row row) { return row.role == OpRole::optimizer; });
inline constexpr KindSet kVersions([](Row row) { return row.makes_version; });
inline constexpr KindSet kComputeLane([](Row row) {
  return row.role == OpRole::compute || row.role == OpRole::optimizer;
});
}  // namespace kinds

/// Moves a stash between a device and its partner. The device does both: it sends, and it fetches.
constexpr bool moves_stash(OpKind kind) { return kinds::kStashMoves.has(kind); }
/// True for transfers towards the stage's device.
constexpr bool fetches(OpKind kind) { return kinds::kFetches.has(kind); }
/// Makes what the next stage takes: a forward.
constexpr bool makes_output(OpKind kind) { return kinds::kOutputs.has(kind); }
/// Takes what a stage made to the next one; the other transfers between stages go back.
constexpr bool carries_output(OpKind kind) { return kinds::kOutputTransfers.has(kind); }
/// Does once more what was done before.
constexpr bool repeats(OpKind kind) { return kinds::kRepeats.has(kind); }
/// Sums gradients over the replicas of a stage in all pipelines.
constexpr bool sums_replicas(OpKind kind) { return kinds::kReplicaSums.has(kind); }
/// Sums gradients of what several stages of a pipeline share.
constexpr bool sums_tied(OpKind kind) { return kinds::kTiedSums.has(kind); }
/// Makes the norm that all stages decide by.
constexpr bool makes_norm(OpKind kind) { return kinds::kNorms.has(kind); }
/// Takes a link between two devices.
constexpr bool is_transfer(OpKind kind) { return kinds::kTransfers.has(kind); }
/// One instruction on the lanes of all its devices.
constexpr bool is_collective(OpKind kind) { return kinds::kCollectives.has(kind); }
/// Steps a stage's weights, or settles a step.
constexpr bool is_optimizer(OpKind kind) { return kinds::kOptimizer.has(kind); }
/// Makes the next version of a stage's weights.
constexpr bool makes_version(OpKind kind) { return kinds::kVersions.has(kind); }
/// Keeps a step that was made before its norm was known, or makes it again.
constexpr bool settles_step(OpKind kind) { return is_optimizer(kind) && !makes_version(kind); }
/// Runs a stage's kernels on one microbatch (or a span of them).
constexpr bool is_compute(OpKind kind) { return kinds::kCompute.has(kind); }
/// Computes what was not computed before: the ideal run has this work and no other.
constexpr bool is_useful(OpKind kind) { return kinds::kUseful.has(kind); }
/// Runs on its device's compute lane, in the device's order; the other kinds have lanes of their
/// own.
constexpr bool on_compute_lane(OpKind kind) { return kinds::kComputeLane.has(kind); }
/// Produces weight gradients.
constexpr bool makes_weight_gradient(OpKind kind) { return kinds::kWeightGradients.has(kind); }
/// Produces the gradient of the stage's input.
constexpr bool makes_input_gradient(OpKind kind) { return kinds::kInputGradients.has(kind); }
/// Reads the stage's weights, and so a version of them.
constexpr bool reads_weights(OpKind kind) { return kinds::kReadWeights.has(kind); }

namespace detail {
consteval bool traits_in_order() {
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    const OpTraits& row = kOpTraits[i];
    if (index(row.kind) != i || is_collective(row.kind) != (row.flow == Flow::together))
      return false;
    if (on_compute_lane(row.kind) != (row.price <= Price::update)) return false;
  }
  return true;
}
static_assert(traits_in_order());
}  // namespace detail

}  // namespace tandem
