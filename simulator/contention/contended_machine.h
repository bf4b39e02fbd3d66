#pragma once
// ContendedMachine: a program in time where transfers and sums share links, or slow compute down.
// The rule is SimulatedMachine's: an instruction starts when it heads all its lanes and all it
// waits for has ended. What takes a time known beforehand ends as soon as it is looked at, in any
// order; only what shares a link, or slows or is slowed, goes through a queue of events in the
// order of time. So a program in which nothing is shared needs no event at all.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/program/timeline.h"
#include "simulator/contention/contended_program.h"
#include "simulator/contention/slowed_compute.h"
#include "simulator/engine/simulated_machine.h"

namespace tandem {

/// Tallies whose times are ticks, rounded.
DeviceTallies in_nanoseconds(DeviceTallies ticks);

/// Inside times are ticks, outside nanoseconds.
class ContendedMachine {
 public:
  /// Asked after each body, in their order, with the starts and ends of its instances, two ticks
  /// for each, always in one order, 0 for those that are switched off. True: the run may stop.
  using AfterBody = std::function<bool(std::int64_t body, std::span<const std::int64_t> times)>;

  /// `recorder`: every span is appended to it; may be null. `after_body` may be empty. What is
  /// referred to must outlive the machine.
  explicit ContendedMachine(const ContendedProgram& compiled, Timeline* recorder = nullptr,
                            AfterBody after_body = {});

  /// Runs so many batches, from time 0. Once. Throws InputError when the clock is over before.
  void run(std::int64_t batches);

  /// In ticks, and rounded to nanoseconds.
  const DeviceTallies& tick_tallies() const { return tallies_; }
  DeviceTallies tallies() const { return in_nanoseconds(tallies_); }

 private:
  using NodeId = ContendedProgram::NodeId;
  using Node = ContendedProgram::Node;
  struct Ref {
    std::int64_t body = 0;
    NodeId node{};
  };
  /// An instance that has not started.
  struct State {
    std::int64_t ready = 0;     // the latest of what it waited for so far
    std::int64_t moved = 0;     // how long that took, if it was a transfer or a sum
    std::uint32_t pending = 0;  // lanes that it does not head, and waits
  };
  struct Row {
    Table<NodeId, State> states;
    std::vector<std::int64_t> times;  // only for `after_body`
    std::size_t left = 0;             // instances that have not ended
  };
  struct Lane {
    std::span<const NodeId> order;
    std::int64_t free = 0;  // since when
    std::int64_t body = 0;  // of what heads it …
    std::size_t at = 0;     // … and where that stands in the order
  };
  /// An instance that has started and is followed through time.
  struct Followed {
    Ref ref;
    std::int64_t start = 0;
    std::uint32_t leg = 0;
  };
  enum Due : std::uint32_t { kStart, kDelayOver };

  bool is_on(std::int64_t body, std::int32_t offset) const;
  bool is_on(Ref ref) const { return is_on(ref.body, compiled_.nodes()[ref.node].microbatch); }
  Row& row(std::int64_t body) { return rows_[static_cast<std::uint64_t>(body + ramp_) & mask_]; }
  void open(std::int64_t body);
  std::size_t open_partly(std::int64_t body, Row& row);
  void arrive(Ref ref, std::int64_t time, std::int64_t moved);
  void head_next(LaneId lane);

  void start_all();
  bool resume_deferred();
  bool must_make_room(std::int64_t next) const;
  void make_room();
  void start(Ref ref);
  void end(Ref ref, std::int64_t start, std::int64_t end);
  void tally(const ContendedProgram::Kind& kind, std::int64_t free, std::int64_t moved,
             std::int64_t start, std::int64_t end);
  void close_bodies();

  void follow(Ref ref, std::int64_t start, const ContendedProgram::Kind& kind);
  const ContendedProgram::Kind& kind_of(Ref ref) const;
  std::int64_t next_event();
  void settle();
  void handle_events();
  void handle(DueEvent event);
  void begin_leg(std::uint32_t followed);
  void end_leg(std::uint32_t followed);
  void end_followed(std::uint32_t followed);

  const ContendedProgram& compiled_;
  const Program& program_;
  Timeline* recorder_;
  AfterBody after_body_;
  const std::int64_t ramp_, reach_;  // reach_: bodies from an instance to those it lets start
  std::int64_t batches_ = 0, last_whole_ = 0;  // last_whole_: the last body without any that is off
  std::int64_t left_ = 0;                      // instances of the run that have not ended
  bool stopped_ = false;

  Table<NodeId, State>
      fresh_;              // of a body all of whose instances are on, as are those it waits for
  std::vector<Row> rows_;  // a ring
  std::uint64_t mask_ = 0;
  std::int64_t base_, opened_;  // bodies from base_ on have not all ended; those before opened_
                                // have a row
  Table<LaneId, Lane> lanes_;
  std::vector<Ref> ready_, deferred_;  // deferred_: may start, but there is no row for what follows
  std::int64_t resumed_at_ = 0;        // base_ when deferred_ was last looked through

  std::int64_t now_ = 0;
  std::vector<Followed> followed_;
  std::vector<std::uint32_t> unused_, ended_;
  DueEvents due_;
  FairShares flows_;
  SlowedCompute compute_;
  DeviceTallies tallies_;
};

}  // namespace tandem
