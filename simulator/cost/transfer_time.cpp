#include "simulator/cost/transfer_time.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "core/base/error.h"

namespace tandem {

Duration transfer_time(const Profile& profile, Bytes bytes) {
  if (profile.transfers.empty()) throw InputError("the profile has no transfers");
  std::vector<TransferCost> rows = profile.transfers;
  std::ranges::sort(rows, {}, &TransferCost::bytes);
  if (rows.size() == 1 || bytes <= rows.front().bytes) return rows.front().time;
  auto above = std::ranges::lower_bound(rows, bytes, {}, &TransferCost::bytes);
  if (above == rows.end()) --above;
  const auto below = std::prev(above);
  const double slope = static_cast<double>((above->time - below->time).count()) /
                       static_cast<double>(std::max<Bytes>(above->bytes - below->bytes, 1));
  const double time =
      static_cast<double>(below->time.count()) + slope * static_cast<double>(bytes - below->bytes);
  return Duration(static_cast<std::int64_t>(std::max(time, 0.0)));
}

}  // namespace tandem
