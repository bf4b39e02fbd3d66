#include "simulator/carried.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/check.h"

namespace tandem {

Carried::Carried(const Program& program)
    : lanes_(program.lanes().size()), size_(program.lanes().size()) {
  find_sums(program);
  const auto add = [&](Wait wait) {
    if (wait.lag > 0 && (waits_.empty() || waits_.back() != wait)) waits_.push_back(wait);
  };
  if (program.depth() > 1 || !behind_.empty()) {
    for (const Wait& wait : program.parts().wait_pool) {
      const Wait sum = behind(wait.producer);
      add(wait);
      add({sum.producer, wait.lag + sum.lag});
    }
  }
  std::sort(waits_.begin(), waits_.end());
  waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
  for (const Wait& wait : waits_) {
    rows_.push_back(size_);
    size_ += wait.lag;
  }
}

std::size_t Carried::place(InstructionId producer, std::uint32_t lag) const {
  const auto found = std::lower_bound(waits_.begin(), waits_.end(), Wait{producer, lag});
  TANDEM_CHECK(found != waits_.end() && *found == (Wait{producer, lag}), index(producer), lag);
  return row(static_cast<std::size_t>(found - waits_.begin())) + lag - 1;
}

/// The last instruction before an update on its collective lane, around the loop where need be,
/// that is no update.
void Carried::find_sums(const Program& program) {
  const auto is_collective_lane = [](const Lane& l) { return l.kind == LaneKind::collective; };
  if (std::none_of(program.lanes().begin(), program.lanes().end(), is_collective_lane)) return;
  Table<LaneId, std::optional<Wait>> sum(program.lanes().size());
  std::vector<std::pair<InstructionId, LaneId>> first;  // updates before any sum of their body
  for (const InstructionId id : program.order()) {
    const Instruction& instruction = program[id];
    const OpKind kind = instruction.op.kind;
    if (kind != OpKind::update && !is_collective(kind)) continue;
    for (const LaneId lane : program.lanes(instruction)) {
      if (program.lanes()[lane].kind != LaneKind::collective) continue;
      if (kind != OpKind::update) {
        sum[lane] = Wait{id, 0};
      } else if (sum[lane]) {
        behind_[id] = *sum[lane];
      } else {
        first.emplace_back(id, lane);
      }
    }
  }
  for (const auto& [id, lane] : first) {
    if (sum[lane]) behind_[id] = {sum[lane]->producer, 1};
  }
}

}  // namespace tandem
