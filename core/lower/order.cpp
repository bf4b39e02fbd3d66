// What an order starts from, and what is said where there is none.

#include "core/lower/order.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/notation/notation.h"

namespace tandem::lowering {

namespace {

/// What must come before a node within one body: its device's op before it and lag-0 producers.
template <class Visit>
void for_each_before(const Body& body, NodeId node, Visit visit) {
  if (body.is_transfer(node)) return visit(body.last_of_group(body.transfer(node).producer));
  if (body.ops[at(node)].before != kNone) visit(body.ops[at(node)].before);
  for (NodeId carries = body.ops[at(node)].first_to; carries != kNone;
       carries = body.next(body.next_to, carries)) {
    if (body.transfer(carries).lag == 0) visit(carries);
  }
  for (const std::uint32_t i : body.waits_of.of(node)) {
    if (body.waits[i].lag == 0) visit(body.waits[i].producer);
  }
}

/// A line a device, the culprit's ops marked.
std::string picture_of_cycle(const Schedule& schedule, const Body& body,
                             const std::vector<NodeId>& cycle) {
  std::string text;
  for (const NodeId member : cycle) {
    if (body.is_transfer(member)) continue;
    text += marked_in_order(schedule, body.ops[at(member)].op);
  }
  return text;
}

/// `never_ran`: asked of an op.
template <class NeverRan>
[[noreturn]] void report_cycle(const Schedule& schedule, const Body& body, NeverRan never_ran) {
  const auto stuck = [&](NodeId node) {
    return never_ran(body.is_transfer(node) ? body.transfer(node).producer : node);
  };
  NodeId node = 0;
  while (!stuck(node)) ++node;
  // Every stuck node has a stuck producer: walking back must come round.
  std::vector<NodeId> path;
  std::vector<bool> seen(body.size(), false);
  while (!seen[at(node)]) {
    seen[at(node)] = true;
    path.push_back(node);
    NodeId blocker = kNone;
    for_each_before(body, node, [&](NodeId before) {
      if (blocker == kNone && stuck(before)) blocker = before;
    });
    TANDEM_CHECK(blocker != kNone, node);
    node = blocker;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), node));
  std::string text = fmt::format(
      "schedule \"{}\" would deadlock, a cycle of {} waits:", schedule.name, path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    const NodeId blocker = path[(i + 1) % path.size()];
    const bool in_order = !body.is_transfer(path[i]) && body.ops[at(path[i])].before == blocker;
    text += fmt::format("\n  {} {} {}", describe(schedule, body, path[i]),
                        in_order ? "comes after" : "waits for", describe(schedule, body, blocker));
  }
  throw InfeasibleError(text + picture_of_cycle(schedule, body, path));
}

}  // namespace

UnitOrder::UnitOrder(Body& body) : body_(body), queue_(body.size()) {
  for (const NodeWait& wait : body.waits) {
    if (wait.lag == 0) waiters_.emplace_back(wait.producer, wait.consumer);
  }
  std::sort(waiters_.begin(), waiters_.end());
  for (const NodeId node : body.starts) {
    if (body.ops[at(node)].pending == 0) push(0, node);
  }
}

void UnitOrder::check_complete(const Schedule& schedule) const {
  if (given_ != body_.size()) report_cycle(schedule, body_, [&](NodeId op) { return stuck(op); });
}

}  // namespace tandem::lowering
