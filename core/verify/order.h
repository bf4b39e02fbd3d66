#pragma once
// Order: what a program guarantees to have ended before what starts, in every run that holds both.
//
// Instances outside a run are switched off and guarantee nothing, so a guarantee between two
// batches must hold in the shortest run that has both: the batches from one to the other. Longer
// runs only add instances, hence guarantees.
//
// Nothing is unrolled. A lane is a sequence that repeats each body, so what is known of it is one
// position in one body: all before it has ended, and it has started or ended. A wait carries that
// from its waiter's lane to its producer's, alike in every body in which both are in the run.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <vector>

#include "core/program/program.h"

namespace tandem::verification {

inline constexpr InstructionId kNoInstruction{0xffffffffU};

/// An instruction, and where Order keeps it: who asks often keeps both.
struct Seated {
  InstructionId id = kNoInstruction;
  std::uint32_t seat = 0xffffffffU;
  operator InstructionId() const { return id; }
};

/// The batch that each instruction's instance in body 0 works on.
std::vector<std::int32_t> batches_of(const Program& program);

class Order {
 public:
  /// `batch_of`: the batch of each instruction's instance in body 0. REQUIRES: both arguments
  /// outlive this.
  Order(const Program& program, std::span<const std::int32_t> batch_of);

  /// `first` has ended before the instance of `then` starts that works `batches_later` (maybe
  /// negative) batches later. Exact, but for long chains of instructions that hold no lane, and
  /// that one of two has ended: what it does not see it denies. REQUIRES: the program's order is
  /// topological.
  bool before(Seated first, Seated then, std::int64_t batches_later = 0) {
    const Seat &a = seats_[first.seat], &b = seats_[then.seat];
    const std::int64_t first_body = std::max<std::int64_t>(0, -batches_later) - a.batch;
    const std::int64_t then_body = std::max<std::int64_t>(0, batches_later) - b.batch;
    if (then_body < first_body || (then_body == first_body && then.id <= first.id)) return false;
    if (a.line != kNone && b.line != kNone) {
      if (a.line == b.line) return true;
      if ((a.next != kNone || b.next != kNone) && share_another_line(a, b)) return true;
    }
    return ask({first_body, first.seat}, {then_body, then.seat}, std::abs(batches_later) + 1);
  }
  bool before(InstructionId first, InstructionId then, std::int64_t batches_later = 0) {
    return before(seated(first), seated(then), batches_later);
  }

  const Program& program() const { return *program_; }
  Seated seated(InstructionId id) const { return {id, seat_of_[index(id)]}; }
  std::int64_t batch(InstructionId id) const { return batch_of_[index(id)]; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;

  /// An instruction on a line: a lane, and all lanes that hold the same instructions, as both of a
  /// transfer do. Seats stand line by line, in order; last those of instructions without a lane.
  struct Seat {
    std::uint32_t line = kNone;
    std::int32_t batch = 0;
    InstructionId id{kNone};
    std::uint32_t next = kNone;  // of the same instruction on another line
  };
  struct Position {
    std::int64_t body = std::numeric_limits<std::int64_t>::min();
    std::uint32_t seat = 0;
    friend auto operator<=>(const Position&, const Position&) = default;
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
    Chain longer(std::int64_t by, std::uint32_t by_lag) const {
      const std::int64_t all = apart + by;
      return {batch, all, std::min(least, all), std::max(most, all), lag + by_lag, length + 1};
    }
    Reach reach() const { return {most - batch, least - batch, lag}; }
  };
  static constexpr int kMostInChain = 5;
  /// What is known from a seat on.
  struct Step {
    std::uint32_t seat = 0, known = 0;
  };
  /// All that waits of one line on another with one reach guarantee.
  struct Link {
    Reach reach;
    std::uint32_t from = 0, to = 0;
    std::uint32_t next_alike = kNone;
    std::uint32_t last_found = 0;  // the next question is mostly about the step behind
    std::vector<Step> steps{};     // never empty; both columns ascend
  };

  std::vector<std::uint32_t> find_lines();
  void take_seats(std::vector<std::uint32_t> next_seat);
  void sit_also(std::uint32_t seat, std::uint32_t line, std::uint32_t& next_seat);
  void find_followers();
  void make_links();
  std::uint32_t link_of(std::uint32_t from, std::uint32_t to, const Reach& reach);
  std::uint32_t find_link(std::uint32_t from, std::uint32_t to, const Reach& reach);
  bool leads(std::uint32_t link, std::uint32_t from, std::uint32_t to, const Reach& reach) const {
    return link != kNone && links_[link].from == from && links_[link].to == to &&
           links_[link].reach == reach;
  }
  void sort_links();
  template <class Visit>
  void each_reach(InstructionId waiter, const Visit& visit) const;
  template <class Visit>
  void reach_further(InstructionId waiter, const Chain& chain, const Visit& visit) const;

  std::span<Link> links_from(std::uint32_t line) {
    return std::span(links_).subspan(first_link_[line], first_link_[line + 1] - first_link_[line]);
  }
  bool share_another_line(const Seat& a, const Seat& b) const;
  bool ask(Position first, Position then, std::int64_t batches);
  /// Whether the target has ended where the line is known up to `position`.
  bool tells(std::uint32_t line, Position position) const {
    if (target_.seat >= first_laneless_) return tells_by_follower(line, position);
    for (std::uint32_t at = target_.seat; at != kNone; at = seats_[at].next) {
      if (seats_[at].line == line) return Position{target_.body, at} <= position;
    }
    return false;
  }
  bool tells_by_follower(std::uint32_t line, Position position) const;
  bool by_one_link(std::uint32_t line, Position position);
  bool climb_as_before(Position position);
  bool start(Position then);
  bool reach(std::uint32_t line, Position position, std::uint32_t by);
  std::size_t find_step(const Link& link, std::uint32_t seat) const;
  Position follow(Link& link, Position position) const;
  bool climb();
  void remember_way(const Link& last);
  void forget();

  const Program* program_;
  std::span<const std::int32_t> batch_of_;
  std::vector<std::uint32_t> line_of_;  // of each lane
  std::vector<std::uint32_t> seat_of_;  // of each instruction: its first seat
  std::vector<Seat> seats_;
  std::vector<InstructionId> on_several_;               // lines; ascending
  std::uint32_t first_laneless_ = 0, laneless_ = 0;     // seats without a lane, and how many
  std::vector<std::uint32_t> first_follower_;           // of each seat without a lane …
  std::vector<Wait> followers_;                         // … who waits for it
  std::vector<Link> links_;                             // line by line
  std::vector<std::uint32_t> buckets_;                  // of links, by hash: while they are made
  std::vector<std::uint32_t> recent_from_, recent_to_;  // of each line: a link; likewise
  std::vector<std::uint32_t> first_link_;               // of each line

  // The question being asked.
  std::int64_t batches_ = 0;           // of the run
  Position target_;                    // of what should have ended
  std::vector<Position> frontier_;     // of each line: up to where it is known
  std::vector<std::uint32_t> by_;      // of each such line: the link that led there, or kNone
  std::vector<std::uint8_t> pending_;  // of each line: is in queue_, its links not yet followed
  std::vector<std::uint32_t> touched_, queue_;
  // The way that answered the last question. The next one is mostly the same, a microbatch on.
  std::uint32_t way_start_ = kNone, way_end_ = kNone;  // lines
  std::vector<std::uint32_t> way_;
};

}  // namespace tandem::verification
