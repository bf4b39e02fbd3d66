#include "simulator/contention/contended_machine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/progress.h"

namespace tandem {

namespace {

[[noreturn]] void refuse() {
  throw InputError(
      "the run is too long to be followed through time (3 days): fewer batches, or smaller costs");
}

/// What stands some way ahead on the same lane is in no cache yet.
template <class T>
void fetch_ahead(const T* at) {
  constexpr std::uintptr_t kAhead = 6 * sizeof(T);
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + kAhead));
}

constexpr Duration rounded(std::int64_t ticks) {
  return ticks == kNever ? Duration::max() : Duration((ticks + kTicks / 2) / kTicks);
}

}  // namespace

DeviceTallies in_nanoseconds(DeviceTallies ticks) {
  for (DeviceTally& tally : ticks) {
    for (Duration* time : {&tally.busy, &tally.useful, &tally.exposed_communication,
                           &tally.first_start, &tally.last_end})
      *time = rounded(time->count());
  }
  return ticks;
}

ContendedMachine::ContendedMachine(const ContendedProgram& compiled, Timeline* recorder,
                                   AfterBody after_body)
    : compiled_(compiled),
      program_(compiled.program()),
      recorder_(recorder),
      after_body_(std::move(after_body)),
      ramp_(program_.ramp()),
      // A lane may skip as many bodies as the ramp has, where it goes on with an op that is ahead.
      reach_(std::max<std::int64_t>(program_.depth() - 1, ramp_ + 1)),
      base_(-ramp_),
      opened_(-ramp_),
      resumed_at_(-ramp_),
      flows_(compiled.capacities(), compiled.groups()),
      compute_(compiled.slowdowns()),
      tallies_(program_.placement().devices) {
  for (const Node& node : compiled.nodes())
    fresh_.push_back({.pending = std::uint32_t{node.lanes} + program_[node.id].wait_count});
  rows_.resize(std::bit_ceil(static_cast<std::size_t>(reach_) + 2));
  mask_ = rows_.size() - 1;
  for (const LaneId lane : ids(program_.lanes())) lanes_.push_back({compiled.on(lane)});
}

void ContendedMachine::run(std::int64_t batches) {
  const auto size = static_cast<std::int64_t>(program_.size() + 1);
  if (batches > kNever / 2 / std::max<std::int64_t>(size, program_.microbatches())) refuse();
  batches_ = batches;
  last_whole_ = batches - 1 - ramp_;
  left_ = batches * static_cast<std::int64_t>(program_.size());
  for (const LaneId lane : ids(lanes_)) {
    lanes_[lane].body = -ramp_ - 1;
    lanes_[lane].at = lanes_[lane].order.size();
    head_next(lane);
  }
  const Activity progress("simulating shared links");
  constexpr std::int64_t kBetween = 4096;
  for (std::int64_t turn = 0; !stopped_; ++turn) {
    if (turn % kBetween == 0) keep_going();
    start_all();
    const std::int64_t next = next_event();
    if (next > now_ && (flows_.unsettled() || compute_.unsettled())) {
      settle();
    } else if (must_make_room(next)) {
      make_room();
    } else if (next == kNever && followed_.size() == unused_.size()) {
      break;
    } else {
      if (next >= kEndOfClock) refuse();
      now_ = next;
      handle_events();
    }
  }
  TANDEM_CHECK(stopped_ || left_ == 0, left_, base_);
  if (recorder_ == nullptr) return;
  std::ranges::sort(recorder_->spans, {},
                    [](const Span& span) { return std::pair(span.body, span.instruction); });
}

bool ContendedMachine::is_on(std::int64_t body, std::int32_t offset) const {
  if (body >= 0 && body <= last_whole_) return true;
  const std::int64_t m = program_.microbatches(), microbatch = body * m + offset;
  return microbatch >= 0 && microbatch < batches_ * m;
}

void ContendedMachine::open(std::int64_t body) {
  Row& row = this->row(body);
  if (after_body_) row.times.assign(2 * program_.size(), 0);
  if (body >= static_cast<std::int64_t>(program_.depth()) - 1 && body <= last_whole_) {
    row.states = fresh_;
    row.left = program_.size();
  } else {
    row.states.resize(program_.size());
    std::fill(row.states.begin(), row.states.end(), State{});
    row.left = open_partly(body, row);
  }
}

/// How many of its instances are on. They wait for none that is switched off.
std::size_t ContendedMachine::open_partly(std::int64_t body, Row& row) {
  std::size_t on = 0;
  for (const NodeId node : ids(compiled_.nodes())) {
    if (!is_on({body, node})) continue;
    ++on;
    const Instruction& instruction = program_[compiled_.nodes()[node].id];
    std::uint32_t& pending = row.states[node].pending;
    pending = instruction.lane_count;
    for (const Wait& wait : program_.waits(instruction)) {
      if (is_on(body - wait.lag, program_[wait.producer].op.microbatch)) ++pending;
    }
    if (pending == 0) ready_.push_back({body, node});
  }
  return on;
}

void ContendedMachine::arrive(Ref ref, std::int64_t time, std::int64_t moved) {
  while (opened_ <= ref.body) open(opened_++);
  State& state = row(ref.body).states[ref.node];
  if (time > state.ready) {
    state.ready = time;
    state.moved = moved;
  } else if (time == state.ready) {
    state.moved = std::max(state.moved, moved);
  }
  if (--state.pending == 0) ready_.push_back(ref);
}

void ContendedMachine::head_next(LaneId id) {
  Lane& lane = lanes_[id];
  do {
    if (++lane.at >= lane.order.size()) {
      lane.at = 0;
      if (++lane.body >= batches_ || lane.order.empty()) return;
    }
  } while (!is_on({lane.body, lane.order[lane.at]}));
  arrive({lane.body, lane.order[lane.at]}, lane.free, 0);
}

void ContendedMachine::start_all() {
  do {
    while (!ready_.empty()) {
      const Ref ref = ready_.back();
      ready_.pop_back();
      if (ref.body + reach_ < base_ + static_cast<std::int64_t>(rows_.size()))
        start(ref);
      else
        deferred_.push_back(ref);
    }
  } while (resume_deferred());
}

/// Those for which there may be rows by now.
bool ContendedMachine::resume_deferred() {
  if (resumed_at_ == base_ || deferred_.empty()) return false;
  resumed_at_ = base_;
  ready_.swap(deferred_);
  return true;
}

/// Something that is deferred starts before the next event, which must see it.
bool ContendedMachine::must_make_room(std::int64_t next) const {
  return std::ranges::any_of(deferred_, [&](Ref ref) {
    const std::size_t at = static_cast<std::uint64_t>(ref.body + ramp_) & mask_;
    return rows_[at].states[ref.node].ready < next;
  });
}

void ContendedMachine::make_room() {
  std::vector<Row> rows(2 * rows_.size());
  const std::uint64_t mask = rows.size() - 1;
  for (std::int64_t body = base_; body < opened_; ++body)
    rows[static_cast<std::uint64_t>(body + ramp_) & mask] = std::move(row(body));
  rows_ = std::move(rows);
  mask_ = mask;
  ready_.swap(deferred_);
}

void ContendedMachine::start(Ref ref) {
  const ContendedProgram::Kind& kind = kind_of(ref);
  const std::int64_t time = row(ref.body).states[ref.node].ready;
  if (kind.followed)
    follow(ref, time, kind);
  else
    end(ref, time, time + kind.time);
}

void ContendedMachine::end(Ref ref, std::int64_t start, std::int64_t end) {
  if (end >= kEndOfClock) refuse();
  const Node& node = compiled_.nodes()[ref.node];
  const ContendedProgram::Kind& kind = compiled_.kind(node.cost);
  const std::span<const LaneId> lanes = compiled_.lanes(node);
  Row& row = this->row(ref.body);
  fetch_ahead(&row.states[ref.node]);
  fetch_ahead(&node);
  fetch_ahead(compiled_.consumers(node).data());
  if (kind.own) tally(kind, lanes_[lanes.front()].free, row.states[ref.node].moved, start, end);
  if (recorder_ != nullptr)
    recorder_->spans.push_back({node.id, ref.body, rounded(start), rounded(end)});
  if (after_body_) {
    row.times[2 * index(ref.node)] = start;
    row.times[2 * index(ref.node) + 1] = end;
  }
  --row.left;
  for (const LaneId lane : lanes) {
    lanes_[lane].free = end;
    head_next(lane);
  }
  const std::int64_t moved = kind.own ? 0 : end - start;
  for (const ContendedProgram::Consumer& consumer : compiled_.consumers(node)) {
    const Ref next{ref.body + consumer.lag, consumer.node};
    if (is_on(next)) arrive(next, end, moved);
  }
  --left_;
  close_bodies();
}

void ContendedMachine::tally(const ContendedProgram::Kind& kind, std::int64_t free,
                             std::int64_t moved, std::int64_t start, std::int64_t end) {
  DeviceTally& of = tallies_[kind.device];
  of.first_start = std::min(of.first_start, Duration(start));
  of.last_end = std::max(of.last_end, Duration(end));
  of.busy += Duration(end - start);
  if (kind.useful) of.useful += Duration(kind.time);
  of.exposed_communication += Duration(std::min(start - free, moved));
}

void ContendedMachine::close_bodies() {
  while (base_ < opened_ && row(base_).left == 0) {
    if (after_body_ && after_body_(base_, row(base_).times)) stopped_ = true;
    ++base_;
  }
}

const ContendedProgram::Kind& ContendedMachine::kind_of(Ref ref) const {
  return compiled_.kind(compiled_.nodes()[ref.node].cost);
}

void ContendedMachine::follow(Ref ref, std::int64_t start, const ContendedProgram::Kind& kind) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(followed_.size()));
    followed_.emplace_back();
  }
  const std::uint32_t id = unused_.back();
  unused_.pop_back();
  followed_[id] = {.ref = ref, .start = start, .leg = 0};
  if (kind.own || kind.slowed > 0)
    due_.push({start, id, kStart});
  else
    due_.push({start + compiled_.legs(kind).front().delay, id, kDelayOver});
}

std::int64_t ContendedMachine::next_event() {
  const std::int64_t due = due_.empty() ? kNever : due_.top().time;
  return std::min({due, flows_.next_end(), compute_.next_end()});
}

void ContendedMachine::settle() {
  flows_.settle(now_);
  compute_.settle(now_);
}

/// Those of now, as far as they are known.
void ContendedMachine::handle_events() {
  while (!due_.empty() && due_.top().time == now_) {
    const DueEvent event = due_.top();
    due_.pop();
    handle(event);
  }
  while (flows_.next_end() == now_) {
    ended_.clear();
    flows_.end(now_, ended_);
    for (const std::uint32_t followed : ended_) end_leg(followed);
  }
  while (compute_.next_end() == now_) end_followed(compute_.end());
}

void ContendedMachine::handle(DueEvent event) {
  const Followed& of = followed_[event.subject];
  const ContendedProgram::Kind& kind = kind_of(of.ref);
  if (event.stamp == kDelayOver) {
    const ContendedProgram::Leg& leg = compiled_.legs(kind)[of.leg];
    if (leg.group == ContendedProgram::kNoGroup) return end_leg(event.subject);
    flows_.begin(leg.group, event.subject, leg.bytes, now_);
  } else if (kind.own) {
    compute_.begin(index(kind.device), event.subject, kind.time, now_);
  } else {
    for (const DeviceId device : compiled_.slowed(kind)) compute_.movement_begins(index(device));
    begin_leg(event.subject);
  }
}

void ContendedMachine::begin_leg(std::uint32_t followed) {
  const Followed& of = followed_[followed];
  const ContendedProgram::Leg& leg = compiled_.legs(kind_of(of.ref))[of.leg];
  due_.push({now_ + leg.delay, followed, kDelayOver});
}

void ContendedMachine::end_leg(std::uint32_t followed) {
  Followed& of = followed_[followed];
  const ContendedProgram::Kind& kind = kind_of(of.ref);
  if (++of.leg < kind.legs) return begin_leg(followed);
  for (const DeviceId device : compiled_.slowed(kind)) compute_.movement_ends(index(device));
  end_followed(followed);
}

void ContendedMachine::end_followed(std::uint32_t followed) {
  unused_.push_back(followed);
  const Followed of = followed_[followed];
  end(of.ref, of.start, now_);
}

}  // namespace tandem
