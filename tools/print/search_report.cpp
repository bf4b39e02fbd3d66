#include "tools/print/search_report.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/text/count_text.h"

namespace tandem::tools {

std::string search_text(const OrderSearch& search) {
  const SearchedOrder& found = search.found;
  std::string text = fmt::format("search: {}", print_duration(found.makespan));
  if (found.named.empty()) {
    text += found.stopped ? "; there was no time for a named schedule that keeps the cap\n"
                          : "; no named schedule of one stage a device keeps the cap\n";
  } else if (found.is_named()) {
    text += fmt::format(", as fast as {}, the fastest named schedule of one stage a device\n",
                        found.named);
  } else {
    text += fmt::format(
        ", {:.2f} % less than {}, the fastest named schedule of one stage a device ({})\n",
        100.0 * found.gain(), found.named, print_duration(found.named_makespan));
  }
  text += found.optimal()
              ? "proved: no order of these stages takes less\n"
              : fmt::format("proved: no order of these stages takes less than {}, {:.2f} % below\n",
                            print_duration(found.bound), 100.0 * found.gap());
  text +=
      fmt::format("{} tried in {:.2f} s, seed {}{}\n", counted(found.orders, "order"),
                  search.seconds, search.seed, found.stopped ? "; stopped, the best so far" : "");
  return text;
}

Json search_json(const OrderSearch& search) {
  const SearchedOrder& found = search.found;
  Json named = nullptr, named_makespan = nullptr;
  if (!found.named.empty()) {
    named = found.named;
    named_makespan = to_seconds(found.named_makespan);
  }
  return {{"makespan_s", to_seconds(found.makespan)},
          {"bound_s", to_seconds(found.bound)},
          {"gap", found.gap()},
          {"optimal", found.optimal()},
          {"fastest_named", named},
          {"fastest_named_makespan_s", named_makespan},
          {"gain", found.gain()},
          {"is_named", found.is_named()},
          {"orders", found.orders},
          {"seed", search.seed},
          {"seconds", search.seconds},
          {"stopped", found.stopped},
          {"interrupted", search.interrupted}};
}

int search_exit_code(const OrderSearch& search) {
  if (!search.interrupted) return static_cast<int>(ExitCode::done);
  fmt::print(stderr, "error: interrupted after {}: this is the best so far\n",
             counted(search.found.orders, "order"));
  return static_cast<int>(ExitCode::interrupted);
}

}  // namespace tandem::tools
