#include "tools/print/sensitivity_report.h"

#include <string>
#include <utility>

#include <fmt/format.h>

namespace tandem::tools {

namespace {

/// How much of `whole` a change of 1 % is, in percent.
double percent(const CriticalTime& time, double whole_s) {
  return whole_s > 0.0 ? time.seconds_a_batch() / whole_s : 0.0;
}

std::string next_text(const Bottlenecks& all) {
  if (all.order.size() > 1 && limits_all_paths(all.order[1])) {
    return fmt::format("next: {}: {:.3f} %", name(all.order[1].resource),
                       percent(all.order[1].least, all.whole_s));
  }
  if (!all.next) return "next: none";
  return fmt::format("next bottleneck: {}, once {} takes {:.1f} % less time",
                     name(all.next->resource), name(all.order.front().resource),
                     100.0 * all.next->from);
}

std::string signed_percent_column(double value) {
  return value == 0.0 ? fmt::format("{:>9} %", 0) : fmt::format("{:>+9.3f} %", value);
}

/// The gain of 1 % faster, and the loss of 1 % slower.
std::string text_of(const CriticalShare& row, double whole_s) {
  return signed_percent_column(-percent(row.least, whole_s)) + " " +
         signed_percent_column(percent(row.most, whole_s));
}

/// A row of what a run and a batch of its endless run gain and lose; nothing where both are none.
bool print_row(const std::string& name, const CriticalShare* batch, const CriticalShare& run,
               const SimulationResult& result) {
  if (run.most.time.count() == 0 && (batch == nullptr || batch->most.time.count() == 0))
    return false;
  fmt::print("{:<28} {:<23}  {}\n", name,
             batch == nullptr ? "" : text_of(*batch, result.period_s()),
             text_of(run, to_seconds(result.makespan)));
  return true;
}

void print_layers(const LayerGains& gains, const SimulationResult& result) {
  const auto print = [&](const std::string& name, const LayerGain& gain) {
    print_row(name, gain.period ? &*gain.period : nullptr, gain.makespan, result);
  };
  fmt::print("\n");
  for (const LayerGain& gain : gains.alike) {
    if (gain.layers.size() > 1) print("all " + name(gains, gain), gain);
  }
  for (const LayerGain& gain : gains.most) print(name(gains, gain), gain);
  if (gains.rest) print(fmt::format("the other {} layers", gains.rest->layers.size()), *gains.rest);
}

Json share_json(const CriticalShare& share) {
  return {{"least", share.least.seconds_a_batch()}, {"most", share.most.seconds_a_batch()}};
}

void add_shares(Json& row, const LayerGain& gain) {
  row["period_critical_s"] = gain.period ? share_json(*gain.period) : Json();
  row["makespan_critical_s"] = share_json(gain.makespan);
}

Json layers_json(const LayerGains& gains) {
  Json rows = Json::array();
  for (std::size_t layer = 0; layer < gains.each.size(); ++layer) {
    Json row{{"layer", layer},
             {"kind", tandem::name(gains.kinds[layer])},
             {"stage", index(gains.stages[layer])}};
    add_shares(row, gains.each[layer]);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json kinds_json(const LayerGains& gains) {
  return array_of(gains.alike, [&](const LayerGain& gain) {
    Json row{{"kind", tandem::name(gains.kinds[gain.layers.front()])},
             {"layers", gain.layers.size()}};
    add_shares(row, gain);
    return row;
  });
}

}  // namespace

void print_bottlenecks(const Bottlenecks& all) {
  const char* const whole = all.endless ? "a batch" : "the run";
  const std::vector<Sensitivity>& rows = all.order;
  if (rows.empty()) return fmt::print("\nno bottleneck: {} takes no time\n", whole);
  if (limits_all_paths(rows.front())) {
    return fmt::print("\nbottleneck: {}: 1 % faster there shortens {} by {:.3f} %\n{}\n",
                      name(rows.front().resource), whole, percent(rows.front().least, all.whole_s),
                      next_text(all));
  }
  constexpr std::size_t kMostNamed = 4;
  std::string names;
  for (std::size_t i = 0; i < rows.size() && i < kMostNamed; ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", name(rows[i].resource));
  if (rows.size() > kMostNamed) names += fmt::format(" and {} more", rows.size() - kMostNamed);
  fmt::print("\nno single bottleneck: several critical paths are equally long; they use {}\n",
             names);
}

Json bottlenecks_json(const Bottlenecks& all) {
  const auto nth = [&](std::size_t i) {
    return i < all.order.size() && limits_all_paths(all.order[i])
               ? Json(name(all.order[i].resource))
               : Json();
  };
  return {{"bottleneck", nth(0)},
          {"next", all.next ? Json(name(all.next->resource)) : nth(1)},
          {"next_once_less", all.next ? Json(all.next->from) : Json()}};
}

void print_sensitivity(const Sensitivities& all, const SimulationResult& result) {
  print_bottlenecks(all.bottlenecks);
  fmt::print("\n{:<28} {:<23}  {}\n{:<28} {:>11} {:>11}  {:>11} {:>11}\n", "1 % faster or slower",
             all.period ? "batch (endless run)" : "", "this run", "", all.period ? "faster" : "",
             all.period ? "slower" : "", "faster", "slower");
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < all.makespan.size(); ++i) {
    const Sensitivity& run = all.makespan[i];
    const Sensitivity* const batch = all.period ? &(*all.period)[i] : nullptr;
    if (!print_row(name(run.resource), batch, run, result)) ++left_out;
  }
  if (left_out > 0)
    fmt::print("{} more {} on no critical path\n", left_out, left_out == 1 ? "is" : "are");
  if (all.layers) print_layers(*all.layers, result);
}

Json sensitivity_json(const Sensitivities& all) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < all.makespan.size(); ++i) {
    const Sensitivity& run = all.makespan[i];
    Json row{{"resource", name(run.resource)}};
    row["period_critical_s"] = all.period ? share_json((*all.period)[i]) : Json();
    row["makespan_critical_s"] = share_json(run);
    rows.push_back(std::move(row));
  }
  Json json = bottlenecks_json(all.bottlenecks);
  json["rows"] = std::move(rows);
  json["layers"] = all.layers ? layers_json(*all.layers) : Json();
  json["layer_kinds"] = all.layers ? kinds_json(*all.layers) : Json();
  return json;
}

}  // namespace tandem::tools
