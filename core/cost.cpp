#include "core/cost.h"

#include "core/check.h"

namespace tandem {

CostTable price(const Program& program, const CostModel& model) {
  CostTable table;
  table.reserve(program.cost_keys().size());
  for (const CostKey& key : program.cost_keys()) {
    const Duration time = model(key);
    TANDEM_CHECK(time.count() >= 0, name(key.kind), time.count());
    table.push_back(time);
  }
  return table;
}

}  // namespace tandem
