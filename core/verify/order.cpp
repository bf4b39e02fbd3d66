#include "core/verify/order.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

namespace tandem::verification {

Order::Order(const Program& program, std::span<const std::int32_t> batch_of) : program_(&program) {
  const std::size_t lanes = program.lanes().size();
  frontier_.resize(lanes);
  by_.assign(lanes, kNone);
  pending_.assign(lanes, 0);
  find_lines();
  take_seats(batch_of);
  find_followers();
  make_links();
}

/// Lanes whose instructions all have the same first lane, and as many as it, hold what it holds.
void Order::find_lines() {
  const std::size_t lanes = program_->lanes().size();
  std::vector<std::uint32_t> front(lanes, kNone), count(lanes, 0), seen(lanes, kNone);
  for (const InstructionId id : program_->order()) {
    const auto held = program_->lanes((*program_)[id]);
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
  first_on_line_.assign(lanes + 1, 0);
  for (std::size_t l = 0; l < lanes; ++l) {
    const bool same = front[l] != kNone && count[front[l]] == count[l];
    line_of_[l] = same ? front[l] : static_cast<std::uint32_t>(l);
    first_on_line_[l + 1] = first_on_line_[l] + (line_of_[l] == l ? count[l] : 0);
  }
}

void Order::take_seats(std::span<const std::int32_t> batch_of) {
  const std::size_t lanes = program_->lanes().size();
  std::vector<std::int32_t> taken(lanes, 0);
  std::vector<std::uint32_t> seen(lanes, kNone);
  seats_.resize(program_->size());
  on_line_.resize(first_on_line_.back());
  for (const InstructionId id : program_->order()) {
    Seat& seat = seats_[index(id)];
    seat.batch = batch_of[index(id)];
    for (const LaneId lane : program_->lanes((*program_)[id])) {
      const std::uint32_t line = line_of_[index(lane)];
      if (seen[line] == index(id)) continue;
      seen[line] = static_cast<std::uint32_t>(index(id));
      const Place place{line, taken[line]++};
      on_line_[first_on_line_[line] + static_cast<std::uint32_t>(place.rank)] = id;
      if (seat.place.line == kNone) {
        seat.place = place;
        continue;
      }
      if (seat.others == 0) {
        seat.others = static_cast<std::uint32_t>(others_.size());
        others_.emplace_back();
      }
      others_[seat.others].push_back(place);
    }
  }
}

void Order::find_followers() {
  std::int32_t rows = 0;
  for (Seat& seat : seats_) {
    if (seat.place.line == kNone) seat.place.rank = rows++;
  }
  if (rows == 0) return;
  const auto each = [&](auto visit) {
    for (const InstructionId id : program_->order()) {
      for (const Wait& wait : program_->waits((*program_)[id])) {
        if (has_line(wait.producer)) continue;
        visit(static_cast<std::size_t>(seats_[index(wait.producer)].place.rank),
              Wait{id, wait.lag});
      }
    }
  };
  first_follower_.assign(static_cast<std::size_t>(rows) + 2, 0);
  each([&](std::size_t row, const Wait&) { ++first_follower_[row + 2]; });
  for (std::size_t row = 2; row < first_follower_.size(); ++row) {
    first_follower_[row] += first_follower_[row - 1];
  }
  followers_.resize(first_follower_.back());
  each([&](std::size_t row, const Wait& by) { followers_[first_follower_[row + 1]++] = by; });
}

/// Visits (producer, reach) for all that `waiter` waits for and that holds a lane; through those
/// that hold none, what they wait for.
template <class Visit>
void Order::each_reach(InstructionId waiter, const Visit& visit, Chain chain) const {
  const Seat& own = seats_[index(waiter)];
  if (chain.length == 0) chain.batch = own.batch;
  for (const Wait& wait : program_->waits((*program_)[waiter])) {
    Chain longer = chain;
    longer.apart += own.batch + std::int64_t{wait.lag} - seats_[index(wait.producer)].batch;
    longer.least = std::min(longer.least, longer.apart);
    longer.most = std::max(longer.most, longer.apart);
    longer.lag += wait.lag;
    if (has_line(wait.producer)) {
      visit(wait.producer,
            Reach{longer.most - chain.batch, longer.least - chain.batch, longer.lag});
    } else if (++longer.length <= kMostWithoutLane) {
      each_reach(wait.producer, visit, longer);
    }
  }
}

std::uint32_t Order::link_of(const Link& wanted, std::vector<std::uint32_t>& buckets) {
  const auto mix = static_cast<std::uint64_t>(
      ((wanted.reach.first * 31 + wanted.reach.past_last) * 31 + wanted.reach.lag) * 31);
  const std::uint64_t hash =
      ((mix + wanted.from) * 0x9e3779b97f4a7c15U + wanted.to) * 0x9e3779b97f4a7c15U;
  std::uint32_t& bucket = buckets[(hash >> 32) & (buckets.size() - 1)];
  for (std::uint32_t l = bucket; l != kNone; l = links_[l].next_alike) {
    const Link& link = links_[l];
    if (link.from == wanted.from && link.to == wanted.to && link.reach == wanted.reach) return l;
  }
  links_.push_back(wanted);
  links_.back().next_alike = bucket;
  links_.back().next_of_line = links_from_[wanted.from];
  bucket = links_from_[wanted.from] = static_cast<std::uint32_t>(links_.size() - 1);
  return bucket;
}

void Order::make_links() {
  struct Raw {
    std::uint32_t link;
    Step step;
  };
  std::vector<Raw> raw;
  raw.reserve(program_->parts().wait_pool.size());
  links_from_.assign(program_->lanes().size(), kNone);
  std::vector<std::uint32_t> buckets(
      std::bit_ceil(program_->lanes().size() + program_->parts().wait_pool.size() / 8), kNone);
  const auto add = [&](Place from, Place to, const Reach& reach) {
    if (from.line == to.line) return;  // implied
    const std::uint32_t link = link_of({.from = from.line, .to = to.line, .reach = reach}, buckets);
    ++links_[link].end;
    raw.push_back({link, {from.rank, to.rank}});
  };
  for (const InstructionId id : program_->order()) {
    const Seat& seat = seats_[index(id)];
    if (seat.place.line == kNone) continue;
    Place last = seat.place;
    const Reach self{-std::int64_t{seat.batch}, -std::int64_t{seat.batch}, 0};
    for (const Place other : others_[seat.others]) {
      add(last, other, self);
      last = other;
    }
    add(last, seat.place, self);  // a ring: whoever knows of it on one line does on all
    each_reach(id, [&](InstructionId producer, const Reach& reach) {
      add(seat.place, seats_[index(producer)].place, reach);
    });
  }
  std::uint32_t begin = 0;
  for (Link& link : links_) {
    link.begin = begin;
    begin += std::exchange(link.end, begin);
    link.last_found = link.begin;
  }
  steps_.resize(raw.size());
  for (const Raw& one : raw) {
    Link& link = links_[one.link];
    steps_[link.end] = one.step;
    if (link.end > link.begin) {
      steps_[link.end].known = std::max(one.step.known, steps_[link.end - 1].known);
    }
    ++link.end;
  }
}

bool Order::share_a_line(const Seat& a, const Seat& b) const {
  if (a.place.line == kNone || b.place.line == kNone) return false;
  if (a.place.line == b.place.line) return true;
  if (a.others == 0 && b.others == 0) return false;
  const auto holds = [&](const Seat& seat, std::uint32_t line) {
    const auto& others = others_[seat.others];
    return seat.place.line == line ||
           std::any_of(others.begin(), others.end(), [&](Place p) { return p.line == line; });
  };
  const auto& others = others_[a.others];
  return holds(b, a.place.line) ||
         std::any_of(others.begin(), others.end(), [&](Place p) { return holds(b, p.line); });
}

/// Where one sees that `first` has ended: it did, or something started that waits for it.
void Order::want(InstructionId first, std::int64_t body) {
  target_ = {body, first};
  wanted_.clear();
  const Seat& seat = seats_[index(first)];
  if (seat.place.line != kNone) {
    wanted_.push_back({seat.place.line, {body, seat.place.rank}});
    for (const Place other : others_[seat.others]) {
      wanted_.push_back({other.line, {body, other.rank}});
    }
    return;
  }
  const auto row = static_cast<std::size_t>(seat.place.rank);
  for (std::uint32_t i = first_follower_[row]; i < first_follower_[row + 1]; ++i) {
    const Seat& follower = seats_[index(followers_[i].producer)];
    const std::int64_t its_body = body + followers_[i].lag, batch = its_body + follower.batch;
    if (follower.place.line == kNone || batch < 0 || batch >= batches_) continue;
    wanted_.push_back({follower.place.line, {its_body, follower.place.rank}});
  }
}

bool Order::wanted(std::uint32_t line, Position position) const {
  for (const Wanted& one : wanted_) {
    if (one.line == line && one.position <= position) return true;
  }
  return false;
}

/// Notes that everything on the line up to `position` has ended; true: so has the target.
bool Order::reach(std::uint32_t line, Position position, std::uint32_t by) {
  if (position <= frontier_[line] || position.body < target_.body) return false;
  if (position.body == target_.body) {
    if (position.rank < 0) return false;
    const std::uint32_t row = first_on_line_[line] + static_cast<std::uint32_t>(position.rank);
    if (on_line_[row] < target_.id) return false;
  }
  if (frontier_[line] == Position{}) touched_.push_back(line);
  frontier_[line] = position;
  by_[line] = by;
  if (wanted(line, position)) return true;
  if (pending_[line] == 0) {
    pending_[line] = 1;
    queue_.push_back(line);
  }
  return false;
}

/// What is known as `then` starts: its predecessors on its lanes and its waits.
bool Order::start(InstructionId then, std::int64_t body) {
  bool found = false;
  each_reach(then, [&](InstructionId producer, const Reach& by) {
    if (found || body < by.first || body >= batches_ + by.past_last) return;
    const Place place = seats_[index(producer)].place;
    found = reach(place.line, {body - by.lag, place.rank}, kNone);
  });
  const Seat& seat = seats_[index(then)];
  if (seat.place.line == kNone) return found;
  found = found || reach(seat.place.line, {body, seat.place.rank - 1}, kNone);
  for (const Place other : others_[seat.others]) {
    found = found || reach(other.line, {body, other.rank - 1}, kNone);
  }
  return found;
}

/// Up to where the line that `link` leads to is known to have ended; nowhere: Position{}.
Order::Position Order::follow(Link& link, Position position) const {
  const Step* const begin = steps_.data() + link.begin;
  const Step* const last = steps_.data() + link.end - 1;
  std::int64_t body = position.body;
  const Step* found = last;
  const std::int64_t last_body = batches_ + link.reach.past_last - 1;
  if (body > last_body) {
    body = last_body;
  } else if (position.rank < begin->rank) {
    --body;
  } else if (position.rank < last->rank) {
    const auto holds = [&](const Step* step) {
      return step->rank <= position.rank && position.rank < (step + 1)->rank;
    };
    found = steps_.data() + link.last_found;
    if (found == last || !holds(found)) {
      found = found + 1 < last && holds(found + 1)
                  ? found + 1
                  : std::upper_bound(
                        begin, last, position.rank,
                        [](std::int32_t rank, const Step& step) { return rank < step.rank; }) -
                        1;
    }
    link.last_found = static_cast<std::uint32_t>(found - steps_.data());
  }
  if (body < link.reach.first) return {};
  return {body - link.reach.lag, found->known};
}

bool Order::climb_as_before() {
  if (way_start_ == kNone) return false;
  Position position = frontier_[way_start_];
  std::uint32_t line = way_start_;
  for (const std::uint32_t l : way_) {
    if (position == Position{}) return false;
    position = follow(links_[l], position);
    line = links_[l].to;
  }
  return wanted(line, position);
}

bool Order::climb() {
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const std::uint32_t line = queue_[i];
    pending_[line] = 0;
    for (std::uint32_t l = links_from_[line]; l != kNone; l = links_[l].next_of_line) {
      const Position position = follow(links_[l], frontier_[line]);
      if (!reach(links_[l].to, position, l)) continue;
      remember_way(l);
      return true;
    }
  }
  return false;
}

void Order::remember_way(std::uint32_t link) {
  way_.clear();
  for (; link != kNone; link = by_[way_start_]) {
    way_.push_back(link);
    way_start_ = links_[link].from;
  }
  std::reverse(way_.begin(), way_.end());
}

void Order::forget() {
  for (const std::uint32_t line : touched_) frontier_[line] = Position{};
  for (const std::uint32_t line : queue_) pending_[line] = 0;
  touched_.clear();
  queue_.clear();
}

bool Order::before(InstructionId first, InstructionId then, std::int64_t batches_later) {
  const Seat &a = seats_[index(first)], &b = seats_[index(then)];
  const std::int64_t first_body = std::max<std::int64_t>(0, -batches_later) - a.batch;
  const std::int64_t then_body = std::max<std::int64_t>(0, batches_later) - b.batch;
  if (then_body < first_body || (then_body == first_body && then <= first)) return false;
  if (share_a_line(a, b)) return true;
  for (const Wait& wait : program_->waits((*program_)[then])) {
    if (wait.producer == first && then_body - wait.lag == first_body) return true;
  }
  batches_ = std::abs(batches_later) + 1;
  want(first, first_body);
  const bool found = start(then, then_body) || climb_as_before() || climb();
  forget();
  return found;
}

}  // namespace tandem::verification
