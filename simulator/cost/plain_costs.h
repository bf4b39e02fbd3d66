#pragma once
// Plain costs: times and sizes given by hand, of one stage that all are like or of each stage in a
// file.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/read.h"
#include "core/memory/memory.h"
#include "simulator/cost/stage_costs.h"

namespace tandem {

/// Of one stage, held by every stage; what is not given has a default.
struct PlainTimes {
  std::optional<Duration> forward = {};   // of one microbatch, as all that follow
  std::optional<Duration> backward = {};  // whole; or its halves
  std::optional<Duration> backward_input = {}, backward_weight = {};
  std::optional<Duration> transfer = {};             // between different devices; else 0
  std::optional<Duration> recompute = {};            // else the forward's
  std::optional<Duration> update = {}, reduce = {};  // else 0
  std::optional<Duration> overlapped = {};    // forward and backward as one unit; else their sum
  std::optional<Duration> move = {};          // a stash to the partner, or back; else a transfer's
  std::optional<Duration> norm = {};          // of all gradients; else 0
  std::optional<Bytes> activation = {};       // held for one microbatch from forward to backward
  std::optional<Bytes> weight_gradient = {};  // of it, from input- to weight-gradient; else all
  /// The times are of all stages of a device together, but transfer and norm.
  bool of_device = false;
};

/// A time of PlainTimes as options and results name it.
struct PlainTimeRow {
  std::string_view flag;  // "backward-input"
  std::string_view help;
  std::optional<Duration> PlainTimes::*member;
};
inline constexpr std::array<PlainTimeRow, 11> kPlainTimeRows{{
    {"forward", "time of a stage's forward for one microbatch", &PlainTimes::forward},
    {"backward", "time of its whole backward", &PlainTimes::backward},
    {"backward-input", "time of its input-gradient half", &PlainTimes::backward_input},
    {"backward-weight", "time of its weight-gradient half", &PlainTimes::backward_weight},
    {"transfer", "time on every edge between different devices (default 0)", &PlainTimes::transfer},
    {"recompute-time", "time of a recomputation (default: forward)", &PlainTimes::recompute},
    {"update", "time of a stage's update (default 0)", &PlainTimes::update},
    {"reduce", "time of a stage's gradient sum over replicas (default 0)", &PlainTimes::reduce},
    {"overlapped", "time of a forward and a backward issued as one unit (default: their sum)",
     &PlainTimes::overlapped},
    {"move", "bpipe: time to move a stash to the partner, or back (default: as a transfer)",
     &PlainTimes::move},
    {"norm", "time of the norm of all gradients (default 0)", &PlainTimes::norm},
}};

struct PlainCosts {
  PlainTimes times = {};
  std::string path = {};                           // of the file that says them instead
  std::shared_ptr<const StageCostFile> file = {};  // what it says; null: `times` do
};

/// The costs of each stage of a schedule.
struct GivenCosts {
  StageCosts times;
  Table<StageId, HeldActivation> held;  // bytes of a microbatch
  bool sized = false;                   // whether any bytes were given
  double activation_after_input = 1.0;  // G/A, where all stages have the same
  std::vector<double> slices = {};      // their shares of a microbatch, where it is sliced
};

/// For a schedule of so many stages on so many devices, `chunks` of them on each. Throws InputError
/// where a file has costs of another number. REQUIRES: a forward, and either a backward or both of
/// its halves, or a file.
GivenCosts given_costs(const PlainCosts& costs, std::size_t stages, std::size_t chunks,
                       std::size_t devices);

/// Shares out times and bytes of a microbatch among its slices as their lengths say: nothing is
/// known of attention. Throws InputError where only a model says how long they are.
void cut_into_slices(const Slicing& slicing, GivenCosts& costs);

/// What an automatic schedule orders by when these costs are simulated.
OrderCosts order_costs(const GivenCosts& given, Recompute recompute);

}  // namespace tandem
