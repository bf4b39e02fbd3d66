#pragma once
// Order: what a program guarantees to have ended before what starts, in every run that holds both.
//
// Instances outside a run are switched off and guarantee nothing, so a guarantee between two
// batches must hold in the shortest run that has both: the batches from one to the other. Longer
// runs only add instances, hence guarantees.
//
// Nothing is unrolled. A lane is a sequence that repeats each body, so what is known of it is one
// position, (body, rank): everything up to there has ended. A wait carries knowledge from its
// waiter's lane to its producer's, the same way in every body in which both are in the run.

#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/program.h"

namespace tandem::verification {

class Order {
 public:
  /// REQUIRES: the program's order is topological. `batch_of`: the batch of each instruction's
  /// instance in body 0.
  Order(const Program& program, std::span<const std::int32_t> batch_of);

  /// `first` has ended before the instance of `then` starts that works `batches_later` (maybe
  /// negative) batches later. Exact, but for long chains of instructions that hold no lane, and
  /// that one of two has ended: what it does not see it denies.
  bool before(InstructionId first, InstructionId then, std::int64_t batches_later = 0);

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  struct Position {
    std::int64_t body = std::numeric_limits<std::int64_t>::min();
    std::int32_t rank = 0;  // −1: before the first of the body
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  /// A line is a lane, and all lanes that hold the same instructions: both lanes of a transfer.
  struct Place {
    std::uint32_t line = kNone;
    std::int32_t rank = 0;
  };
  struct Seat {
    Place place;  // no line: `rank` is the row of its followers
    std::int32_t batch = 0;
    std::uint32_t others = 0;  // a row of others_: its further places
  };
  /// A wait, or several through instructions without a lane: all are in the run in the waiter's
  /// bodies from `first` to before the run's batches + `past_last`. The last is `lag` bodies
  /// earlier.
  struct Reach {
    std::int64_t first = 0, past_last = 0, lag = 0;
    friend bool operator==(const Reach&, const Reach&) = default;
  };
  /// Waits in a row, `apart` batches from end to end and between `least` and `most` on the way.
  struct Chain {
    std::int64_t batch = 0, apart = 0, least = 0, most = 0, lag = 0;
    int length = 0;
  };
  static constexpr int kMostWithoutLane = 4;
  /// All that waits of one line on another with one reach guarantee: each row of steps_ what is
  /// known once everything up to its rank has ended. Both columns ascend.
  struct Link {
    std::uint32_t from = 0, to = 0;
    Reach reach;
    std::uint32_t begin = 0, end = 0;  // of its steps
    std::uint32_t last_found = 0;      // the next question is mostly about the step behind
    std::uint32_t next_of_line = kNone, next_alike = kNone;
  };
  struct Step {
    std::int32_t rank = 0, known = 0;
  };
  struct Wanted {
    std::uint32_t line = 0;
    Position position;
  };
  /// Nothing issued before it can follow it.
  struct Target {
    std::int64_t body = 0;
    InstructionId id{};
  };

  void find_lines();
  void take_seats(std::span<const std::int32_t> batch_of);
  void find_followers();
  void make_links();
  std::uint32_t link_of(const Link& wanted, std::vector<std::uint32_t>& buckets);
  template <class Visit>
  void each_reach(InstructionId waiter, const Visit& visit, Chain chain = {}) const;

  bool has_line(InstructionId id) const { return seats_[index(id)].place.line != kNone; }
  bool share_a_line(const Seat& a, const Seat& b) const;
  void want(InstructionId first, std::int64_t body);
  bool wanted(std::uint32_t line, Position position) const;
  bool start(InstructionId then, std::int64_t body);
  bool reach(std::uint32_t line, Position position, std::uint32_t by);
  Position follow(Link& link, Position position) const;
  bool climb_as_before();
  bool climb();
  void remember_way(std::uint32_t link);
  void forget();

  const Program* program_;
  std::vector<std::uint32_t> line_of_;  // of each lane
  std::vector<Seat> seats_;
  std::vector<std::vector<Place>> others_{{}};
  std::vector<std::uint32_t> first_on_line_;
  std::vector<InstructionId> on_line_;         // line by line, by rank
  std::vector<std::uint32_t> first_follower_;  // of each instruction without a lane …
  std::vector<Wait> followers_;                // … who waits for it
  std::vector<Link> links_;
  std::vector<std::uint32_t> links_from_;  // the first of each line
  std::vector<Step> steps_;

  // The question being asked.
  std::int64_t batches_ = 0;  // of the run
  Target target_;
  std::vector<Wanted> wanted_;         // any of them tells that the target has ended
  std::vector<Position> frontier_;     // of each line: up to where it is known to have ended
  std::vector<std::uint32_t> by_;      // of each such line: the link that led there, or kNone
  std::vector<std::uint8_t> pending_;  // of each line: is in queue_, its links not yet followed
  std::vector<std::uint32_t> touched_, queue_;
  // The way that answered the last question. The next one is mostly the same, a microbatch on.
  std::uint32_t way_start_ = kNone;
  std::vector<std::uint32_t> way_;
};

}  // namespace tandem::verification
