#include "simulator/engine/carry_over_state.h"

#include <algorithm>

#include "core/base/check.h"

namespace tandem {

CarryOverState::CarryOverState(const Program& program)
    : lanes_(program.lanes().size()), size_(program.lanes().size()) {
  if (program.depth() > 1) {
    for (const Wait& wait : program.parts().wait_pool) {
      if (wait.lag > 0 && (waits_.empty() || waits_.back() != wait)) waits_.push_back(wait);
    }
  }
  std::ranges::sort(waits_);
  waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
  for (const Wait& wait : waits_) {
    rows_.push_back(size_);
    size_ += wait.lag;
  }
}

std::size_t CarryOverState::place(InstructionId producer, std::uint32_t lag) const {
  const auto found = std::ranges::lower_bound(waits_, Wait{producer, lag});
  TANDEM_CHECK(found != waits_.end() && *found == (Wait{producer, lag}), index(producer), lag);
  return row(static_cast<std::size_t>(found - waits_.begin())) + lag - 1;
}

}  // namespace tandem
