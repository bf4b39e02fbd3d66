// How long the automatic schedulers take to find an order.

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/schedule/schedule.h"
#include "tools/benchmarks/benchmark.h"

namespace tandem::benchmarks {

namespace {

struct Wanted {
  std::string_view schedule;
  std::uint16_t devices;
  std::int32_t microbatches;
  double most_s;           // to be reached
  double authors_s = 0.0;  // of their generator in Python, as told; 0: not known
};

constexpr Wanted kWanted[] = {{"v-min", 64, 512, 1.0},          {"v-half", 64, 512, 1.0},
                              {"v-zb", 64, 512, 1.0},           {"zb-2p", 64, 512, 1.0},
                              {"zbv-auto", 64, 512, 1.0},       {"v-half", 32, 128, 0.059, 5.9},
                              {"zb-2p", 32, 128, 0.0015, 0.15}, {"v-adaptive", 32, 128, 30.0}};

}  // namespace

std::vector<Section> bench_schedules(const Settings& settings) {
  Section section{"Time to make an order", {}};
  for (const Wanted& wanted : kWanted) {
    const ScheduleRequest request{.devices = wanted.devices, .microbatches = wanted.microbatches};
    const ScheduleTraits& traits = find_schedule(wanted.schedule);
    const int repetitions = wanted.most_s > 1.0 ? 1 : settings.repetitions;
    const double seconds =
        best_processor_seconds(repetitions, {[&] { keep(make_schedule(traits, request)); }})[0];
    const bool compared = wanted.authors_s > 0.0;
    section.rows.push_back(
        {.what = fmt::format("{}, {} devices, {} microbatches", wanted.schedule, wanted.devices,
                             wanted.microbatches),
         .value = seconds * 1e3,
         .unit = "ms",
         .of = compared ? "the authors' Python" : "",
         .ratio = compared ? wanted.authors_s / seconds : 0.0,
         .floor = compared ? wanted.authors_s / wanted.most_s : wanted.most_s * 1e3,
         .at_most = !compared});
  }
  return {section};
}

}  // namespace tandem::benchmarks
