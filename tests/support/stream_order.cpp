#include "tests/support/stream_order.h"

#include <algorithm>
#include <utility>

namespace tandem::testing {

StreamOrder::Stream StreamOrder::add_stream() {
  const std::lock_guard lock(mutex_);
  clocks_.emplace_back();
  for (StreamClock& clock : clocks_) clock.resize(clocks_.size());
  return clocks_.size() - 1;
}

void StreamOrder::join(StreamClock& clock, const StreamClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

void StreamOrder::launch(Stream stream, const std::string& what, std::span<const Access> accesses) {
  const std::lock_guard lock(mutex_);
  ++launches_;
  go_on(stream);
  const By by{.stream = stream, .time = ++clocks_[stream][stream], .what = what};
  for (const Access& each : accesses) {
    if (!each.writes) access(by, each);
  }
  for (const Access& each : accesses) {
    if (each.writes) access(by, each);
  }
}

StreamClock StreamOrder::record(Stream stream) {
  const std::lock_guard lock(mutex_);
  go_on(stream);
  return clocks_[stream];
}

void StreamOrder::wait(Stream stream, const StreamClock& event) {
  const std::lock_guard lock(mutex_);
  join(clocks_[stream], event);
}

void StreamOrder::leave_out(Stream stream, const StreamClock& event) {
  const std::lock_guard lock(mutex_);
  left_out_.emplace(stream, event);
}

std::size_t StreamOrder::missing() const {
  const std::lock_guard lock(mutex_);
  return missing_;
}

/// Something comes that all waits so far are for.
void StreamOrder::go_on(Stream stream) {
  join(clocks_[stream], finished_);
  const auto [first, last] = left_out_.equal_range(stream);
  for (auto each = first; each != last; ++each) {
    StreamClock known = clocks_[stream];
    join(known, each->second);
    if (known != clocks_[stream]) ++missing_;
  }
  left_out_.erase(first, last);
}

void StreamOrder::finish(std::span<const Stream> streams) {
  const std::lock_guard lock(mutex_);
  for (const Stream stream : streams) join(finished_, clocks_[stream]);
}

std::set<std::string> StreamOrder::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

std::size_t StreamOrder::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_;
}

/// The first cell that begins at or after `at`, where one that contains it is cut.
StreamOrder::Cells::iterator StreamOrder::split_at(const std::byte* at) {
  const auto next = cells_.lower_bound(at);
  if (next != cells_.end() && next->first == at) return next;
  if (next == cells_.begin()) return next;
  const auto before = std::prev(next);
  if (before->second.last <= at) return next;
  Cell rest = before->second;
  before->second.last = at;
  return cells_.emplace_hint(next, at, std::move(rest));
}

void StreamOrder::access(const By& by, const Access& access) {
  split_at(access.last);
  const std::byte* at = access.first;
  auto cell = split_at(at);
  while (at < access.last) {
    if (cell == cells_.end() || cell->first > at) {  // a gap: nobody was here
      const std::byte* end =
          cell == cells_.end() ? access.last : std::min(cell->first, access.last);
      cell = cells_.emplace_hint(cell, at, Cell{.last = end});
    }
    check(by, access.writes, cell->second);
    if (access.writes) {
      cell->second.write = by;
      cell->second.reads.clear();
    } else {
      std::erase_if(cell->second.reads, [&](const By& read) { return read.stream == by.stream; });
      cell->second.reads.push_back(by);
    }
    at = cell->second.last;
    ++cell;
  }
}

void StreamOrder::check(const By& by, bool writes, const Cell& cell) {
  if (cell.write.time > 0 && !is_before(cell.write, by)) {
    violations_.insert(by.what + (writes ? " writes" : " reads") + " what " + cell.write.what +
                       " writes");
  }
  if (!writes) return;
  for (const By& read : cell.reads) {
    if (!is_before(read, by)) violations_.insert(by.what + " writes what " + read.what + " reads");
  }
}

}  // namespace tandem::testing
