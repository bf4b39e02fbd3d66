#include "core/schedules/order_problem.h"

#include <algorithm>
#include <cmath>

#include "core/schedules/common.h"

namespace tandem {

namespace {

constexpr std::int64_t kNoCap = std::int64_t{1} << 60;

std::int64_t cap_of(const ScheduleRequest& request, std::size_t device) {
  const std::optional<double> cap = request.activation_cap(device);
  if (!cap) return kNoCap;
  return std::llround(std::min(*cap, 1.0 * request.microbatches) * kActivation);
}

}  // namespace

std::int64_t OrderProblem::held(std::size_t device,
                                const std::array<std::int32_t, kLetters>& done) const {
  const std::int64_t kept = devices[device].kept;
  return (done[0] - done[1]) * kActivation + (done[1] - done[2]) * kept;
}

OrderProblem order_problem(const ScheduleRequest& request) {
  OrderProblem problem{.microbatches = request.microbatches, .devices = {}};
  if (request.costs) problem.shared_links = request.costs->shared_links;
  for (std::size_t j = 0; j < request.devices; ++j) {
    const StageOrderCosts costs = request.costs_of(id_at<StageId>(j));
    const bool last = j + 1 == request.devices;
    problem.devices.push_back(
        {.times = {costs.forward.count(), costs.backward_input.count(),
                   costs.backward_weight.count()},
         .after = costs.update.count(),
         .to_next = request.costs && !last ? request.costs->transfer_after(j).count() : 0,
         .kept = std::llround(costs.kept * kActivation),
         .cap = cap_of(request, j)});
  }
  return problem;
}

bool is_possible(const OrderProblem& problem, std::size_t device, const Word& word) {
  std::array<std::int32_t, kLetters> done{};
  for (const Letter letter : word) {
    if (letter == Letter::whole) {
      ++done[1];
      ++done[2];
    } else {
      ++done[static_cast<std::size_t>(letter)];
    }
    if (done[1] > done[0] || done[2] > done[1]) return false;
    if (problem.held(device, done) > problem.devices[device].cap) return false;
  }
  const std::int32_t m = problem.microbatches;
  return done == std::array{m, m, m};
}

std::optional<Words> words_of(const Schedule& schedule) {
  if (schedule.placement.device != linear_placement(schedule.placement.devices).device) return {};
  Words words;
  for (const std::vector<Op>& ops : schedule.order) {
    Word& word = words.emplace_back();
    std::array<std::int32_t, kLetters> done{};
    // The next microbatches of a kind, `span` of them, or it is another shape.
    const auto put = [&](std::size_t kind, const Op& op) {
      done[kind] += op.span;
      return op.microbatch == done[kind] - 1;
    };
    for (const Op& op : ops) {
      bool in_order = true;
      Letter letter = Letter::forward;
      if (op.kind == OpKind::forward) {
        in_order = put(0, op);
      } else if (op.kind == OpKind::backward_input) {
        in_order = put(1, op);
        letter = Letter::input;
      } else if (op.kind == OpKind::backward_weight) {
        in_order = put(2, op);
        letter = Letter::weight;
      } else if (op.kind == OpKind::backward) {
        in_order = put(1, op) && put(2, op);
        letter = Letter::whole;
      } else if (op.kind == OpKind::update) {
        continue;
      } else {
        return std::nullopt;
      }
      if (!in_order || op.group != 0 || op.staleness != 0) return std::nullopt;
      word.insert(word.end(), op.span, letter);
    }
  }
  return words;
}

Words split(const Words& words) {
  Words halves;
  for (const Word& word : words) {
    Word& half = halves.emplace_back();
    for (const Letter letter : word) {
      half.push_back(letter == Letter::whole ? Letter::input : letter);
      if (letter == Letter::whole) half.push_back(Letter::weight);
    }
  }
  return halves;
}

Schedule schedule_of(const ScheduleRequest& request, const Words& words) {
  return linear_schedule(request, [&](std::vector<Op>& ops, ReplicaId replica) {
    std::array<std::int32_t, kLetters + 1> done{};
    for (const Letter letter : words[index(replica)]) {
      const std::int32_t microbatch = done[static_cast<std::size_t>(letter)]++;
      ops.push_back(letter == Letter::forward  ? forward(replica, microbatch)
                    : letter == Letter::input  ? backward_input(replica, microbatch)
                    : letter == Letter::weight ? backward_weight(replica, microbatch)
                                               : backward(replica, microbatch));
    }
  });
}

}  // namespace tandem
