#include "planner/published/two_bw.h"

#include <algorithm>
#include <array>
#include <map>

namespace tandem {

namespace {

constexpr double kRecomputed = 4.0 / 3.0;  // of a stage's time, the paper's c_extra
constexpr std::array kExecutions{TwoBwExecution::unpipelined, TwoBwExecution::pipelined,
                                 TwoBwExecution::recomputed};

class TwoBwSearch {
 public:
  explicit TwoBwSearch(const TwoBwQuestion& question) : question_(question) {}

  std::optional<TwoBwPlan> best() {
    std::optional<TwoBwPlan> best;
    for (std::int32_t width = 1; width <= question_.devices; ++width) {
      if (question_.global_batch % width != 0) continue;
      for (std::int32_t depth = 1; depth <= question_.devices / width; ++depth) {
        if (question_.blocks % depth != 0) continue;
        for (const std::int32_t size : question_.microbatch_sizes) {
          if (question_.global_batch / width % size != 0) continue;
          for (const TwoBwExecution execution : kExecutions) {
            const TwoBwPlan plan =
                priced({width, depth, size, question_.global_batch / width / size, execution});
            if (plan.memory_bytes > question_.memory_bytes || !is_possible(plan)) continue;
            if (!best || plan.step_s < best->step_s) best = plan;
          }
        }
      }
    }
    return best;
  }

 private:
  static bool is_possible(const TwoBwPlan& plan) {
    if (plan.execution == TwoBwExecution::unpipelined) return plan.depth > 1;
    return plan.microbatches >= plan.depth;
  }

  const TwoBwWork& work(std::int32_t size) {
    const auto [place, unknown] = works_.try_emplace(size);
    if (unknown) place->second = question_.work(size);
    return place->second;
  }

  TwoBwPlan priced(TwoBwPlan plan) {
    const TwoBwWork& work = this->work(plan.microbatch_size);
    const double width = plan.width, depth = plan.depth;
    const bool one_node = plan.width * plan.depth <= question_.devices_a_node;
    const double link = plan.depth == 1 ? 0.0
                                        : 2.0 * work.boundary_bytes /
                                              (one_node ? question_.within_bytes_per_s
                                                        : question_.between_bytes_per_s);
    const double sum = 2.0 * (width - 1.0) / width * question_.weight_bytes / depth /
                       (plan.width <= question_.devices_a_node ? question_.within_bytes_per_s
                                                               : question_.between_bytes_per_s);
    double slowest = 0.0, all = 0.0;
    for (std::int32_t stage = 0; stage < plan.depth; ++stage) {
      const bool first = stage == 0, last = stage == plan.depth - 1;
      double compute = work.block_s * question_.blocks / depth;
      compute += (first ? work.first_s : 0.0) + (last ? work.last_s : 0.0);
      if (plan.execution == TwoBwExecution::recomputed) compute *= kRecomputed;
      // What comes in; the first stage gets nothing.
      const double time =
          std::max(compute + (first ? 0.0 : link), sum / static_cast<double>(plan.microbatches));
      slowest = std::max(slowest, time);
      all += time;
    }
    const bool pipelined = plan.execution != TwoBwExecution::unpipelined;
    plan.step_s = (pipelined ? slowest : all) * static_cast<double>(plan.microbatches);
    plan.memory_bytes = memory(plan, work);
    return plan;
  }

  double memory(const TwoBwPlan& plan, const TwoBwWork& work) const {
    const double depth = plan.depth;
    const bool pipelined = plan.execution != TwoBwExecution::unpipelined;
    const double versions = pipelined && plan.depth > 1 && !question_.flushes ? 2.0 : 1.0;
    const double stashed = pipelined && plan.execution != TwoBwExecution::recomputed ? depth : 1.0;
    return (versions * question_.weight_bytes + question_.other_bytes) / depth +
           stashed * work.activation_bytes / depth +
           (pipelined ? depth : 1.0) * work.boundary_bytes;
  }

  const TwoBwQuestion& question_;
  std::map<std::int32_t, TwoBwWork> works_;
};

}  // namespace

std::string_view name(TwoBwExecution execution) {
  switch (execution) {
    case TwoBwExecution::unpipelined:
      return "without pipelining";
    case TwoBwExecution::pipelined:
      return "pipelined";
    case TwoBwExecution::recomputed:
      break;
  }
  return "pipelined with recomputation";
}

std::optional<TwoBwPlan> plan_two_bw(const TwoBwQuestion& question) {
  return TwoBwSearch(question).best();
}

}  // namespace tandem
