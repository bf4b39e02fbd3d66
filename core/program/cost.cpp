#include "core/program/cost.h"

#include <cmath>

#include "core/base/check.h"

namespace tandem {

Duration transmission_time(Bytes bytes, double bytes_per_second) {
  TANDEM_CHECK(bytes_per_second > 0.0, bytes_per_second);
  return Duration(std::llround(static_cast<double>(bytes) / bytes_per_second * 1e9));
}

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
