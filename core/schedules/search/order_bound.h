#pragma once
// A proved lower bound on the makespan of every order of a problem, and of every way to complete
// one.
//
// Each op has a head, a time before which it can't start in any order, and a tail, a time that
// passes after its end in any order: along what it needs and what needs it, on its own device and
// along the pipeline; and on its device all that must come before (or after) it takes its time.
// The cap adds to this: a forward needs the gradients that make room for it. A device then is one
// machine whose ops have heads and tails, and its preemptive optimum (Jackson's rule, largest tail
// first) bounds every order (Carlier, "The one-machine sequencing problem", 1982).

#include <array>
#include <cstdint>
#include <vector>

#include "core/schedules/search/order_problem.h"
#include "core/schedules/search/partial_order.h"

namespace tandem {

class OrderBound {
 public:
  /// `problem` must outlive it.
  explicit OrderBound(const OrderProblem& problem);

  std::int64_t of_all() const { return of_all_; }
  /// Of the orders that begin like this one.
  std::int64_t of(const PartialOrder& order);

 private:
  using Counts = std::array<std::int32_t, kLetters>;
  using Times = std::array<std::vector<std::int64_t>, kLetters>;  // by kind and microbatch
  struct Device {
    Times heads, tails;
    /// So many gradients must be done before a forward can start, by its microbatch.
    std::vector<std::int32_t> inputs_before, weights_before;
    Times now;                                                      // heads given a beginning
    std::vector<std::int64_t> forward_arrivals, gradient_arrivals;  // not before
  };

  void find_room_makers(std::size_t j);
  void find_tails();
  std::int64_t forward_head(const PartialOrder& order, std::size_t j, std::int32_t k);
  std::int64_t input_head(const PartialOrder& order, std::size_t j, std::int32_t k);
  /// No order ends the first ops of each kind, so many, sooner on this device.
  std::int64_t end_of_first(std::size_t j, const Counts& counts) const;
  /// No order takes less from the start of the first of the ops from these on to the end.
  std::int64_t rest_from(std::size_t j, const Counts& from) const;
  void advance(const PartialOrder& order, bool with_sets);
  std::int64_t one_machine(std::size_t j, const Counts& from) const;

  const OrderProblem* problem_;
  std::int32_t m_;
  std::int64_t most_;  // ops that end_of_first() and rest_from() look at: fewer bound less
  std::vector<Device> devices_;
  std::int64_t of_all_ = 0;
};

}  // namespace tandem
