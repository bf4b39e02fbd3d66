#include "core/verify/order.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace tandem::verification {

std::vector<std::int32_t> batches_of(const Program& program) {
  std::vector<std::int32_t> batches;
  batches.reserve(program.size());
  const std::int32_t m = program.microbatches();
  for (const Instruction& instruction : program.instructions()) {
    const std::int32_t offset = instruction.op.microbatch;
    batches.push_back(offset < m ? 0 : offset / m);  // divisions are dear, and few are needed
  }
  return batches;
}

Order::Order(const Program& program, std::span<const std::int32_t> batch_of)
    : program_(&program), batch_of_(batch_of) {
  const std::size_t lanes = program.lanes().size();
  frontier_.resize(lanes);
  by_.assign(lanes, kNone);
  pending_.assign(lanes, 0);
  take_seats(find_lines());
  find_followers();
  make_links();
}

/// Lanes whose instructions all have the same first lane, and as many as it, hold what it holds.
/// Returns the first seat of each line, and behind them that of the instructions without a lane.
std::vector<std::uint32_t> Order::find_lines() {
  const std::size_t lanes = program_->lanes().size();
  std::vector<std::uint32_t> front(lanes, kNone), count(lanes, 0), seen(lanes, kNone);
  for (const InstructionId id : program_->order()) {
    const auto held = program_->lanes((*program_)[id]);
    if (held.empty()) ++laneless_;
    for (const LaneId lane : held) {
      const std::size_t l = index(lane);
      if (seen[l] == index(id)) continue;
      seen[l] = static_cast<std::uint32_t>(index(id));
      ++count[l];
      const auto first = static_cast<std::uint32_t>(index(held.front()));
      if (front[l] == kNone) front[l] = first;
      if (front[l] != first) front[l] = static_cast<std::uint32_t>(l);
    }
  }
  line_of_.resize(lanes);
  std::vector<std::uint32_t> first_seat(lanes + 1, 0);
  for (std::size_t l = 0; l < lanes; ++l) {
    const bool same = front[l] != kNone && count[front[l]] == count[l];
    line_of_[l] = same ? front[l] : static_cast<std::uint32_t>(l);
    first_seat[l + 1] = first_seat[l] + (line_of_[l] == l ? count[l] : 0);
  }
  return first_seat;
}

void Order::take_seats(std::vector<std::uint32_t> next_seat) {
  first_laneless_ = next_seat.back();
  seat_of_.reserve(program_->size());
  seats_.resize(first_laneless_ + laneless_);
  for (const InstructionId id : program_->order()) {
    const auto lanes = program_->lanes((*program_)[id]);
    const std::uint32_t line = lanes.empty() ? kNone : line_of_[index(lanes.front())];
    const std::uint32_t first = lanes.empty() ? next_seat.back()++ : next_seat[line]++;
    seats_[first] = {line, batch_of_[index(id)], id, kNone};
    seat_of_.push_back(first);
    for (const LaneId lane : lanes) {
      const std::uint32_t other = line_of_[index(lane)];
      if (other != line) sit_also(first, other, next_seat[other]);
    }
    if (seats_[first].next != kNone) on_several_.push_back(id);
  }
}

/// Unless it already does.
void Order::sit_also(std::uint32_t seat, std::uint32_t line, std::uint32_t& next_seat) {
  for (; seats_[seat].next != kNone; seat = seats_[seat].next) {
    if (seats_[seats_[seat].next].line == line) return;
  }
  seats_[next_seat] = {line, seats_[seat].batch, seats_[seat].id, kNone};
  seats_[seat].next = next_seat++;
}

void Order::find_followers() {
  if (laneless_ == 0) return;
  const auto each = [&](auto visit) {
    for (const InstructionId id : program_->order()) {
      for (const Wait& wait : program_->waits((*program_)[id])) {
        const std::uint32_t at = seat_of_[index(wait.producer)];
        if (at >= first_laneless_) visit(at - first_laneless_, Wait{id, wait.lag});
      }
    }
  };
  first_follower_.assign(laneless_ + 2, 0);
  each([&](std::uint32_t row, const Wait&) { ++first_follower_[row + 2]; });
  for (std::size_t row = 2; row < first_follower_.size(); ++row) {
    first_follower_[row] += first_follower_[row - 1];
  }
  followers_.resize(first_follower_.back());
  each([&](std::uint32_t row, const Wait& by) { followers_[first_follower_[row + 1]++] = by; });
}

/// Visits (seat, reach) for all that `waiter` waits for and that holds a lane; through those that
/// hold none, what they wait for.
template <class Visit>
void Order::each_reach(InstructionId waiter, const Visit& visit) const {
  const Chain nothing{.batch = batch(waiter)};
  for (const Wait& wait : program_->waits((*program_)[waiter])) {
    const Chain one = nothing.longer(nothing.batch + wait.lag - batch(wait.producer), wait.lag);
    const std::uint32_t producer = seat_of_[index(wait.producer)];
    if (producer < first_laneless_) {
      visit(producer, one.reach());
    } else {
      reach_further(wait.producer, one, visit);
    }
  }
}

template <class Visit>
void Order::reach_further(InstructionId waiter, const Chain& chain, const Visit& visit) const {
  for (const Wait& wait : program_->waits((*program_)[waiter])) {
    const Chain more = chain.longer(batch(waiter) + wait.lag - batch(wait.producer), wait.lag);
    const std::uint32_t producer = seat_of_[index(wait.producer)];
    if (producer < first_laneless_) {
      visit(producer, more.reach());
    } else if (more.length < kMostInChain) {
      reach_further(wait.producer, more, visit);
    }
  }
}

/// Mostly a line's waits are on one other line, or those on it are of one.
inline std::uint32_t Order::link_of(std::uint32_t from, std::uint32_t to, const Reach& reach) {
  if (leads(recent_from_[from], from, to, reach)) return recent_from_[from];
  if (leads(recent_to_[to], from, to, reach)) return recent_to_[to];
  return recent_from_[from] = recent_to_[to] = find_link(from, to, reach);
}

std::uint32_t Order::find_link(std::uint32_t from, std::uint32_t to, const Reach& reach) {
  const std::uint64_t hash = from * 0x9e3779b97f4a7c15U ^ to * 0xc2b2ae3d27d4eb4fU ^
                             static_cast<std::uint64_t>(reach.first) * 0xff51afd7ed558ccdU ^
                             static_cast<std::uint64_t>(reach.lag) * 0xc4ceb9fe1a85ec53U;
  std::uint32_t& bucket = buckets_[(hash >> 32) & (buckets_.size() - 1)];
  for (std::uint32_t l = bucket; l != kNone; l = links_[l].next_alike) {
    if (leads(l, from, to, reach)) return l;
  }
  links_.push_back({.reach = reach, .from = from, .to = to, .next_alike = bucket});
  bucket = static_cast<std::uint32_t>(links_.size() - 1);
  return bucket;
}

/// Line by line.
void Order::sort_links() {
  std::ranges::stable_sort(links_, {}, &Link::from);
  first_link_.assign(program_->lanes().size() + 1, 0);
  for (const Link& link : links_) ++first_link_[link.from + 1];
  std::partial_sum(first_link_.begin(), first_link_.end(), first_link_.begin());
}

void Order::make_links() {
  const std::size_t lanes = program_->lanes().size(), waits = program_->parts().wait_pool.size();
  buckets_.assign(std::bit_ceil(2 * lanes + waits / 1024 + 1), kNone);
  recent_from_.assign(lanes, kNone);
  recent_to_.assign(lanes, kNone);
  const auto add = [&](std::uint32_t from_line, Step step, const Reach& reach) {
    const std::uint32_t to_line = seats_[step.known].line;
    if (from_line == to_line) return;  // implied
    std::vector<Step>& steps = links_[link_of(from_line, to_line, reach)].steps;
    if (!steps.empty()) step.known = std::max(step.known, steps.back().known);
    steps.push_back(step);
  };
  auto several = on_several_.begin();
  for (const InstructionId id : program_->order()) {
    const std::uint32_t own = seat_of_[index(id)];
    if (own >= first_laneless_) continue;
    if (several != on_several_.end() && *several == id) {
      // Who knows of an instruction on one line does so on all: a ring.
      for (std::uint32_t at = own; at != kNone; at = seats_[at].next) {
        const std::uint32_t next = seats_[at].next;
        add(seats_[at].line, {at, next == kNone ? own : next}, Chain{.batch = batch(id)}.reach());
      }
      ++several;
    }
    const std::uint32_t line = line_of_[index(program_->lanes((*program_)[id]).front())];
    each_reach(id, [&](std::uint32_t ended, const Reach& by) { add(line, {own, ended}, by); });
  }
  sort_links();
}

bool Order::share_another_line(const Seat& a, const Seat& b) const {
  for (const Seat* one = &a;; one = &seats_[one->next]) {
    for (const Seat* other = &b;; other = &seats_[other->next]) {
      if (one->line == other->line) return true;
      if (other->next == kNone) break;
    }
    if (one->next == kNone) return false;
  }
}

/// Of what holds no lane one can tell when something starts that waits for it.
bool Order::tells_by_follower(std::uint32_t line, Position position) const {
  const std::uint32_t row = target_.seat - first_laneless_;
  for (std::uint32_t i = first_follower_[row]; i < first_follower_[row + 1]; ++i) {
    const std::uint32_t at = seat_of_[index(followers_[i].producer)];
    const std::int64_t body = target_.body + followers_[i].lag, batch = body + seats_[at].batch;
    if (seats_[at].line != line || batch < 0 || batch >= batches_) continue;
    if (Position{body, at} <= position) return true;
  }
  return false;
}

/// Notes that the line is known up to `position`; true: the target has ended. Nothing issued before
/// the target can follow it.
bool Order::reach(std::uint32_t line, Position position, std::uint32_t by) {
  if (position <= frontier_[line] || position.body < target_.body) return false;
  if (position.body == target_.body && seats_[position.seat].id < seats_[target_.seat].id) {
    return false;
  }
  if (frontier_[line] == Position{}) touched_.push_back(line);
  frontier_[line] = position;
  by_[line] = by;
  if (tells(line, position)) return true;
  if (pending_[line] == 0) {
    pending_[line] = 1;
    queue_.push_back(line);
  }
  return false;
}

/// What is known as `then` starts; without a lane, by its waits.
bool Order::start(Position then) {
  const Seat& own = seats_[then.seat];
  if (own.line != kNone) return reach(own.line, then, kNone);
  bool found = false;
  for (const Wait& wait : program_->waits((*program_)[own.id])) {
    const Position ended{then.body - wait.lag, seat_of_[index(wait.producer)]};
    found = found || ended == target_;
  }
  each_reach(own.id, [&](std::uint32_t producer, const Reach& by) {
    if (found || then.body < by.first || then.body >= batches_ + by.past_last) return;
    found = reach(seats_[producer].line, {then.body - by.lag, producer}, kNone);
  });
  return found;
}

/// The last step of the link up to a seat, if there is one and it is not the last of all.
std::size_t Order::find_step(const Link& link, std::uint32_t seat) const {
  const auto begin = link.steps.begin(), last = link.steps.end() - 1;
  if (seat < begin->seat || seat >= last->seat) return link.steps.size() - 1;
  const auto above = std::upper_bound(
      begin, last, seat, [](std::uint32_t wanted, const Step& one) { return wanted < one.seat; });
  return static_cast<std::size_t>(above - begin) - 1;
}

/// Up to where the line that `link` leads to is known; nowhere: Position{}.
inline Order::Position Order::follow(Link& link, Position position) const {
  const std::span<const Step> steps = link.steps;
  const auto holds = [&](std::size_t i) {
    return i + 1 < steps.size() && steps[i].seat <= position.seat &&
           position.seat < steps[i + 1].seat;
  };
  std::int64_t body = position.body;
  std::size_t step = steps.size() - 1;
  if (const std::int64_t last_body = batches_ + link.reach.past_last - 1; body > last_body) {
    body = last_body;
  } else if (holds(link.last_found)) {
    step = link.last_found;
  } else if (holds(link.last_found + 1)) {
    step = ++link.last_found;
  } else {
    step = find_step(link, position.seat);
    link.last_found = static_cast<std::uint32_t>(step);
    if (position.seat < steps.front().seat) --body;
  }
  if (body < link.reach.first) return {};
  return {body - link.reach.lag, steps[step].known};
}

inline bool Order::by_one_link(std::uint32_t line, Position position) {
  for (Link& link : links_from(line)) {
    if (link.to != seats_[target_.seat].line) continue;
    if (tells(link.to, follow(link, position))) return true;
  }
  return false;
}

inline bool Order::climb_as_before(Position position) {
  for (const std::uint32_t l : way_) {
    position = follow(links_[l], position);
    if (position == Position{}) return false;
  }
  return tells(way_end_, position);
}

bool Order::climb() {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const std::uint32_t line = queue_[i];
    pending_[line] = 0;
    for (Link& link : links_from(line)) {
      const auto l = static_cast<std::uint32_t>(&link - links_.data());
      if (!reach(link.to, follow(link, frontier_[line]), l)) continue;
      remember_way(link);
      return true;
    }
  }
  return false;
}

void Order::remember_way(const Link& last) {
  way_.clear();
  way_end_ = way_start_ = last.to;
  for (std::uint32_t l = by_[way_start_]; l != kNone; l = by_[way_start_]) {
    way_.push_back(l);
    way_start_ = links_[l].from;
  }
  std::reverse(way_.begin(), way_.end());
}

void Order::forget() {
  for (const std::uint32_t line : touched_) frontier_[line] = Position{};
  for (const std::uint32_t line : queue_) pending_[line] = 0;
  touched_.clear();
  queue_.clear();
}

/// The question where the two share no line.
bool Order::ask(Position first, Position then, std::int64_t batches) {
  batches_ = batches;
  target_ = first;
  const std::uint32_t from = seats_[first.seat].line, to = seats_[then.seat].line;
  if (to != kNone) {
    const bool as_before = to == way_start_ && (from == way_end_ || from == kNone);
    if (as_before && climb_as_before(then)) return true;
    if (by_one_link(to, then)) return true;
  }
  const bool found = start(then) || climb();
  forget();
  return found;
}

}  // namespace tandem::verification
