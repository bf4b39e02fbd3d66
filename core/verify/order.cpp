#include "core/verify/order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tandem::verification {

namespace {

constexpr std::uint32_t kHasLane = 0xffffffffU;
/// Beyond so many unrolled instances a guarantee is asked for over fewer batches: more than needed.
constexpr std::int64_t kMostInstances = std::int64_t{1} << 24;

}  // namespace

Window::Window(const Program& program, std::span<const std::int32_t> batch_of, std::int32_t batches)
    : program_(&program), batch_of_(batch_of), batches_(batches) {
  const std::size_t size = program.size(), rows = static_cast<std::size_t>(batches);
  first_place_.reserve(size);
  std::uint32_t places = 0;
  for (const Instruction& instruction : program.instructions()) {
    first_place_.push_back(places);
    places += instruction.lane_count * static_cast<std::uint32_t>(batches);
  }
  places_.resize(places);
  node_of_.assign(size * rows, 0);
  laneless_.assign(size * rows, kHasLane);
  on_lane_.resize(program.lanes().size());
  links_.resize(program.lanes().size());
  frontier_.assign(program.lanes().size(), -1);
  reached_by_.assign(program.lanes().size(), nullptr);
  is_pending_.assign(program.lanes().size(), false);
  std::uint32_t node = 0;
  for (const std::uint64_t one : instances_in_order()) {
    add_node(id_at<InstructionId>(one / rows), static_cast<std::int32_t>(one % rows), node++);
  }
  sort_stairs();
}

/// Instances as `instruction · batches + batch`, in the order in which a machine issues them: body
/// by body. Bodies are counted through their ranks, since they may lie far apart.
std::vector<std::uint64_t> Window::instances_in_order() const {
  const std::size_t size = program_->size(), rows = static_cast<std::size_t>(batches_);
  std::vector<std::int32_t> shifts(batch_of_.begin(), batch_of_.end());
  std::sort(shifts.begin(), shifts.end());
  shifts.erase(std::unique(shifts.begin(), shifts.end()), shifts.end());
  std::vector<std::int64_t> bodies;
  for (const std::int32_t shift : shifts) {
    for (std::int32_t batch = 0; batch < batches_; ++batch) bodies.push_back(batch - shift);
  }
  std::sort(bodies.begin(), bodies.end());
  bodies.erase(std::unique(bodies.begin(), bodies.end()), bodies.end());
  std::vector<std::uint32_t> rank(shifts.size() * rows);
  for (std::size_t i = 0; i < rank.size(); ++i) {
    const std::int64_t body = static_cast<std::int64_t>(i % rows) - shifts[i / rows];
    const auto found = std::lower_bound(bodies.begin(), bodies.end(), body);
    rank[i] = static_cast<std::uint32_t>(found - bodies.begin());
  }
  std::vector<std::uint32_t> row(size);
  for (std::size_t i = 0; i < size; ++i) {
    const auto found = std::lower_bound(shifts.begin(), shifts.end(), batch_of_[i]);
    row[i] = static_cast<std::uint32_t>(static_cast<std::size_t>(found - shifts.begin()) * rows);
  }
  std::vector<std::size_t> next(bodies.size() + 1);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t batch = 0; batch < rows; ++batch) ++next[rank[row[i] + batch] + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint64_t> order(size * rows);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t batch = 0; batch < rows; ++batch) {
      order[next[rank[row[i] + batch]]++] = i * rows + batch;
    }
  }
  return order;
}

std::span<const Window::Place> Window::places(InstructionId id, std::int32_t batch) const {
  const std::size_t count = (*program_)[id].lane_count;
  return {places_.data() + first_place_[index(id)] + count * static_cast<std::size_t>(batch),
          count};
}

template <class Visit>
void Window::each_wait(InstructionId id, std::int32_t batch, Visit visit) const {
  for (const Wait& wait : program_->waits((*program_)[id])) {
    const std::int64_t of = std::int64_t{batch} - batch_of_[index(id)] - std::int64_t{wait.lag} +
                            batch_of_[index(wait.producer)];
    if (of >= 0 && of < batches_) visit(wait.producer, static_cast<std::int32_t>(of));
  }
}

void Window::add_node(InstructionId id, std::int32_t batch, std::uint32_t node) {
  const std::size_t self = instance(id, batch);
  node_of_[self] = node;
  Place* own = places_.data() + (places(id, batch).data() - places_.data());
  for (const LaneId lane : program_->lanes((*program_)[id])) {
    std::vector<std::uint32_t>& on = on_lane_[index(lane)];
    *own++ = {static_cast<std::uint32_t>(index(lane)), static_cast<std::int32_t>(on.size())};
    on.push_back(node);
  }
  const auto mine = places(id, batch);
  if (mine.empty()) {
    laneless_[self] = static_cast<std::uint32_t>(ended_before_.size());
    ended_before_.emplace_back();
    followers_.emplace_back();
  }
  for (const Place from : mine) {
    for (const Place to : mine) add_stair(from, to);
  }
  each_wait(id, batch, [&](InstructionId producer, std::int32_t of) {
    const std::uint32_t row = laneless_[instance(producer, of)];
    if (row != kHasLane) followers_[row].push_back(static_cast<std::uint32_t>(self));
    const std::span<const Place> ended =
        row == kHasLane ? places(producer, of) : std::span<const Place>(ended_before_[row]);
    if (mine.empty()) {
      auto& own_row = ended_before_[laneless_[self]];
      own_row.insert(own_row.end(), ended.begin(), ended.end());
    }
    for (const Place from : mine) {
      for (const Place to : ended) add_stair(from, to);
    }
  });
}

void Window::add_stair(Place from, Place to) {
  if (from.lane == to.lane) return;
  std::vector<Link>& out = links_[from.lane];
  auto link = std::find_if(out.begin(), out.end(), [&](const Link& l) { return l.to == to.lane; });
  if (link == out.end()) {
    out.push_back({.from = from.lane, .to = to.lane, .id = link_count_++});
    link = out.end() - 1;
  }
  if (to.position <= link->reached) return;
  link->reached = to.position;
  stairs_.push_back({link->id, from.position, to.position});
}

/// Stable, so that the stairs of a link stay in the order of their positions.
void Window::sort_stairs() {
  std::vector<std::uint32_t> first(link_count_ + 1);
  for (const Stair& stair : stairs_) ++first[stair.link + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  for (std::vector<Link>& out : links_) {
    for (Link& link : out) {
      link.first = first[link.id];
      link.last = first[link.id + 1];
    }
  }
  std::vector<Stair> sorted(stairs_.size());
  for (const Stair& stair : stairs_) sorted[first[stair.link]++] = stair;
  stairs_ = std::move(sorted);
}

/// Notes that everything up to `place` has ended; true: so has the target.
bool Window::reach(Place place, const Target& target, const Link* by) {
  if (place.position <= frontier_[place.lane]) return false;
  if (on_lane_[place.lane][static_cast<std::size_t>(place.position)] < target.node) return false;
  if (frontier_[place.lane] < 0) touched_.push_back(place.lane);
  frontier_[place.lane] = place.position;
  reached_by_[place.lane] = by;
  if (ended(place, target)) {
    remember_way(place.lane);
    return true;
  }
  if (!is_pending_[place.lane]) {
    is_pending_[place.lane] = true;
    pending_.push_back(place.lane);
  }
  return false;
}

bool Window::ended(Place last, const Target& target) {
  return std::any_of(target.places.begin(), target.places.end(), [&](const Place& wanted) {
    return wanted.lane == last.lane && wanted.position <= last.position;
  });
}

void Window::remember_way(std::uint32_t lane) {
  way_.clear();
  while (const Link* link = reached_by_[lane]) {
    way_.push_back(link);
    lane = link->from;
  }
  std::reverse(way_.begin(), way_.end());
  way_start_ = lane;
}

/// The last position known to have ended on the lane that `link` leads to, or −1.
std::int32_t Window::follow(const Link& link, std::int32_t position) const {
  const auto begin = stairs_.begin() + link.first, end = stairs_.begin() + link.last;
  const auto above = std::upper_bound(
      begin, end, position,
      [](std::int32_t wanted, const Stair& stair) { return wanted < stair.position; });
  return above == begin ? -1 : (above - 1)->reached;
}

bool Window::climb_as_before(const Target& target) const {
  Place place{way_start_, frontier_.empty() ? -1 : frontier_[way_start_]};
  for (const Link* link : way_) {
    if (place.position < 0) return false;
    place = {link->to, follow(*link, place.position)};
  }
  return place.position >= 0 && ended(place, target);
}

bool Window::climb(const Target& target) {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const std::uint32_t lane = pending_[i];
    is_pending_[lane] = false;
    for (const Link& link : links_[lane]) {
      const std::int32_t position = follow(link, frontier_[lane]);
      if (position >= 0 && reach({link.to, position}, target, &link)) return true;
    }
  }
  return false;
}

void Window::forget() {
  for (const std::uint32_t lane : touched_) frontier_[lane] = -1;
  for (const std::uint32_t lane : pending_) is_pending_[lane] = false;
  touched_.clear();
  pending_.clear();
}

bool Window::before(InstructionId first, std::int32_t first_batch, InstructionId then,
                    std::int32_t then_batch) {
  const std::size_t wanted = instance(first, first_batch), self = instance(then, then_batch);
  Target target{node_of_[wanted], {}};
  if (node_of_[self] <= target.node) return false;
  const auto own = places(first, first_batch);
  target.places.assign(own.begin(), own.end());
  bool found = false;
  if (laneless_[wanted] != kHasLane) {
    for (const std::uint32_t follower : followers_[laneless_[wanted]]) {
      found = found || follower == self;
      const auto rows = static_cast<std::uint32_t>(batches_);
      const auto after =
          places(id_at<InstructionId>(follower / rows), static_cast<std::int32_t>(follower % rows));
      target.places.insert(target.places.end(), after.begin(), after.end());
    }
  }
  for (const Place place : places(then, then_batch)) {
    if (place.position > 0)
      found = found || reach({place.lane, place.position - 1}, target, nullptr);
  }
  each_wait(then, then_batch, [&](InstructionId producer, std::int32_t of) {
    const std::uint32_t row = laneless_[instance(producer, of)];
    found = found || (producer == first && of == first_batch);
    const std::span<const Place> ended =
        row == kHasLane ? places(producer, of) : std::span<const Place>(ended_before_[row]);
    for (const Place place : ended) found = found || reach(place, target, nullptr);
  });
  found = found || climb_as_before(target) || climb(target);
  forget();
  return found;
}

Order::Order(const Program& program, std::span<const std::int32_t> batch_of)
    : program_(&program),
      batch_of_(batch_of),
      most_batches_(std::max<std::int64_t>(
          4,
          kMostInstances / std::max<std::int64_t>(1, static_cast<std::int64_t>(program.size())))),
      seats_(program.size()) {
  for (const InstructionId id : program.order()) {
    const auto lanes = program.lanes(program[id]);
    Seat& seat = seats_[index(id)];
    seat.batch = batch_of[index(id)];
    if (!lanes.empty()) seat.one = lanes.front();
    if (lanes.size() > 1) seat.other = lanes[1];
    seat.more = lanes.size() > 2;
  }
}

bool Order::share_a_lane(InstructionId first, InstructionId then) const {
  const Seat &a = seats_[index(first)], &b = seats_[index(then)];
  if (a.more || b.more) {
    const auto lanes = program_->lanes((*program_)[first]);
    const auto others = program_->lanes((*program_)[then]);
    return std::find_first_of(lanes.begin(), lanes.end(), others.begin(), others.end()) !=
           lanes.end();
  }
  const auto has = [&b](LaneId lane) {
    return lane != kNoLane && (lane == b.one || lane == b.other);
  };
  return has(a.one) || has(a.other);
}

Order::Answer Order::by_lane(InstructionId first, InstructionId then,
                             std::int64_t batches_later) const {
  if (!share_a_lane(first, then)) return Answer::unknown;
  const std::int64_t first_body = -std::int64_t{seats_[index(first)].batch};
  const std::int64_t then_body = batches_later - seats_[index(then)].batch;
  const bool earlier = first_body < then_body || (first_body == then_body && first < then);
  return earlier ? Answer::yes : Answer::no;
}

bool Order::by_wait(InstructionId first, InstructionId then, std::int64_t batches_later) const {
  const std::int64_t lowest = std::min<std::int64_t>(0, batches_later);
  const std::int64_t highest = std::max<std::int64_t>(0, batches_later);
  for (const Wait& wait : program_->waits((*program_)[then])) {
    const std::int64_t of = batches_later - batch_of_[index(then)] - std::int64_t{wait.lag} +
                            batch_of_[index(wait.producer)];
    if (of < lowest || of > highest) continue;
    if (wait.producer == first && of == 0) return true;
    if (by_lane(first, wait.producer, of) == Answer::yes) return true;
  }
  return false;
}

bool Order::before(InstructionId first, InstructionId then, std::int64_t batches_later) {
  const Answer answer = by_lane(first, then, batches_later);
  if (answer != Answer::unknown) return answer == Answer::yes;
  if (by_wait(first, then, batches_later)) return true;
  const std::int64_t most = most_batches_ - 1;
  const auto apart = static_cast<std::int32_t>(std::clamp(batches_later, -most, most));
  const std::int32_t batches = std::abs(apart) + 1;
  if (windows_.size() < static_cast<std::size_t>(batches)) {
    windows_.resize(static_cast<std::size_t>(batches));
  }
  auto& window = windows_[static_cast<std::size_t>(batches) - 1];
  if (!window) window = std::make_unique<Window>(*program_, batch_of_, batches);
  return window->before(first, apart < 0 ? -apart : 0, then, apart > 0 ? apart : 0);
}

}  // namespace tandem::verification
