#include "simulator/contention/fair_shares.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/check.h"

namespace tandem {

namespace {

constexpr double kTickSeconds = 1e-9 / static_cast<double>(kTicks);

}  // namespace

std::int64_t after(std::int64_t now, double ticks) {
  if (ticks >= static_cast<double>(kNever - now)) return kNever;
  // Where flows share, halves are common: all go up, whatever the last bits of a sum say, so that
  // what repeats repeats exactly.
  constexpr double kSlack = 1.0 / 64.0;
  return now + std::llround(ticks + kSlack);
}

FairShares::FairShares(std::vector<double> capacities, std::vector<FlowGroup> groups) {
  for (const double capacity : capacities) {
    TANDEM_CHECK(capacity > 0.0, capacity);
    links_.push_back({.capacity = capacity, .groups = {}});
  }
  for (FlowGroup& group : groups) {
    TANDEM_CHECK(group.cap > 0.0 && group.weight > 0.0, group.cap, group.weight);
    TANDEM_CHECK(!group.crossings.empty());
    const auto id = static_cast<std::uint32_t>(groups_.size());
    for (const FlowGroup::Crossing& crossing : group.crossings)
      links_[crossing.link].groups.push_back(id);
    groups_.push_back({.like = std::move(group), .flows = {}});
  }
}

/// What it was served up to now. So that sums stay exact they begin anew whenever a group has no
/// flow, and now and then where it always has.
void FairShares::advance(Group& group, std::int64_t now) {
  constexpr double kMostServed = 67108864.0;
  group.served += group.rate * static_cast<double>(now - group.at) * kTickSeconds;
  group.at = now;
  if (group.served < kMostServed) return;
  for (Active& active : group.flows) active.until -= group.served;
  group.served = 0.0;
}

void FairShares::change(std::uint32_t group) {
  if (groups_[group].changed) return;
  groups_[group].changed = true;
  changed_.push_back(group);
}

void FairShares::begin(std::uint32_t group, std::uint32_t flow, Bytes bytes, std::int64_t now) {
  Group& of = groups_[group];
  if (of.flows.empty()) {
    of.served = 0.0;
    of.rate = 0.0;
    of.at = now;
  }
  advance(of, now);
  of.flows.push_back({of.served + static_cast<double>(bytes), flow});
  std::push_heap(of.flows.begin(), of.flows.end(), std::greater<>());
  change(group);
}

void FairShares::settle(std::int64_t now) {
  met_links_.clear();
  for (const std::uint32_t id : changed_) {
    for (const FlowGroup::Crossing& crossing : groups_[id].like.crossings) {
      if (!links_[crossing.link].met) settle_around(crossing.link, now);
    }
    groups_[id].changed = false;
  }
  changed_.clear();
  for (const std::uint32_t link : met_links_) links_[link].met = false;
}

/// The groups that flows connect with a link. Of their ends only the first is an event: with it all
/// of them are settled anew. What is due now keeps its end whatever its rate becomes.
void FairShares::settle_around(std::uint32_t link, std::int64_t now) {
  const std::span<const std::uint32_t> links = gather(link);
  fill(links);
  DueEvent first{.time = kNever};
  for (const std::uint32_t id : met_groups_) {
    Group& group = groups_[id];
    ++group.stamp;
    if (group.changed || (group.rate != group.next_rate && group.end > now)) {
      advance(group, now);
      group.rate = group.next_rate;
      const double left = std::max(0.0, group.flows.front().until - group.served);
      group.end = after(now, left / (group.rate * kTickSeconds));
    }
    if (group.end < first.time) first = {group.end, id, group.stamp};
  }
  if (first.time < kNever) ends_.push(first);
}

std::int64_t FairShares::next_end() {
  while (!ends_.empty() && ends_.top().stamp != groups_[ends_.top().subject].stamp) ends_.pop();
  return ends_.empty() ? kNever : ends_.top().time;
}

void FairShares::end(std::int64_t now, std::vector<std::uint32_t>& ended) {
  const std::uint32_t id = ends_.top().subject;
  Group& group = groups_[id];
  ends_.pop();
  ++group.stamp;
  advance(group, now);
  // The one that was due ends in any case: what is left of it is less than a tick's.
  const double most =
      std::max(group.flows.front().until, group.served + group.rate * 0.5 * kTickSeconds);
  while (!group.flows.empty() && group.flows.front().until <= most) {
    ended.push_back(group.flows.front().flow);
    std::pop_heap(group.flows.begin(), group.flows.end(), std::greater<>());
    group.flows.pop_back();
  }
  change(id);
}

/// Finds the groups with flows that a link reaches, and their links, which it returns.
std::span<const std::uint32_t> FairShares::gather(std::uint32_t link) {
  const std::size_t begin = met_links_.size();
  met_groups_.clear();
  links_[link].met = true;
  met_links_.push_back(link);
  for (std::size_t i = begin; i < met_links_.size(); ++i) {
    for (const std::uint32_t id : links_[met_links_[i]].groups) {
      Group& group = groups_[id];
      if (group.flows.empty() || group.open) continue;
      group.open = true;
      met_groups_.push_back(id);
      meet_links_of(group);
    }
  }
  return std::span(met_links_).subspan(begin);
}

void FairShares::meet_links_of(const Group& group) {
  for (const FlowGroup::Crossing& crossing : group.like.crossings) {
    Link& link = links_[crossing.link];
    if (link.met) continue;
    link.met = true;
    met_links_.push_back(crossing.link);
  }
}

/// Progressive filling: the rates of all grow together, each by its weight, until those that have
/// reached their own limit, or else those over the link that is full first, stay where they are.
void FairShares::fill(std::span<const std::uint32_t> links) {
  for (const std::uint32_t id : links) {
    Link& link = links_[id];
    link.left = link.capacity;
    link.load = 0.0;
    link.open = 0;
  }
  for (const std::uint32_t id : met_groups_) {
    const Group& group = groups_[id];
    const double weight = group.like.weight * static_cast<double>(group.flows.size());
    for (const FlowGroup::Crossing& crossing : group.like.crossings) {
      links_[crossing.link].load += crossing.times * weight;
      ++links_[crossing.link].open;
    }
  }
  double least = 0.0;
  open_ = met_groups_.size();
  while (open_ > 0) {
    // Shares only grow from one round to the next, whatever subtraction makes of them.
    double next = std::numeric_limits<double>::infinity();
    for (const std::uint32_t id : links) {
      if (links_[id].open > 0) next = std::min(next, share(links_[id]));
    }
    least = std::max(least, next);
    if (!fill_capped(least)) fill_narrowest(links, least);
  }
}

bool FairShares::fill_capped(double least) {
  bool any = false;
  for (const std::uint32_t id : met_groups_) {
    Group& group = groups_[id];
    if (!group.open || group.like.cap > least * group.like.weight) continue;
    fix(group, group.like.cap);
    any = true;
  }
  return any;
}

void FairShares::fill_narrowest(std::span<const std::uint32_t> links, double least) {
  for (const std::uint32_t link : links) {
    if (links_[link].open == 0 || share(links_[link]) > least) continue;
    for (const std::uint32_t id : links_[link].groups) {
      if (groups_[id].open) fix(groups_[id], least * groups_[id].like.weight);
    }
  }
}

void FairShares::fix(Group& group, double rate) {
  group.next_rate = rate;
  group.open = false;
  --open_;
  const auto flows = static_cast<double>(group.flows.size());
  for (const FlowGroup::Crossing& crossing : group.like.crossings) {
    Link& link = links_[crossing.link];
    link.left -= crossing.times * rate * flows;
    link.load -= crossing.times * group.like.weight * flows;
    --link.open;
  }
}

}  // namespace tandem
