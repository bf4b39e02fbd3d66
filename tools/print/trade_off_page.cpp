#include "tools/print/trade_off_page.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/print/cluster_plan_words.h"
#include "tools/print/plot.h"
#include "tools/print/words.h"
#include "traces/svg.h"

namespace tandem::tools {

namespace {

using Plans = std::vector<ClusterCandidate>;

double usd_of_million_tokens(const ClusterCandidate& of) {
  const double tokens = static_cast<double>(*of.request.global_batch) * of.plan.model.sequence;
  return *of.usd / tokens * 1e6;
}

std::string note_of(const ClusterCandidate& of) {
  std::string note =
      fmt::format("{}: {:.4g} samples/s on {} devices, {} of the fullest", shape_text(of),
                  of.plan.predicted.samples_per_s, of.devices, print_bytes(of.peak_bytes));
  if (of.usd) note += fmt::format(", ${:.4g} a million tokens", usd_of_million_tokens(of));
  return note;
}

Plot plot_of(std::string title, std::string x_title, const Plans& plans,
             const std::function<double(const ClusterCandidate&)>& x) {
  Plot plot{.title = std::move(title),
            .x_title = std::move(x_title),
            .y_title = "samples/s",
            .series = {{.name = "best plans"}}};
  for (const ClusterCandidate& one : plans) {
    const std::string note = note_of(one);
    plot.series[0].points.push_back({.x = x(one),
                                     .y = one.plan.predicted.samples_per_s,
                                     .note = note,
                                     .number = plot.notes.size() + 1});
    plot.notes.push_back(fmt::format("{:>3}  {}", plot.notes.size() + 1, note));
  }
  return plot;
}

/// Of plans that differ in price and speed those that no other beats in both; cheapest first.
Plans undominated(Plans plans) {
  std::ranges::sort(plans, {}, [](const auto& of) {
    return std::pair(usd_of_million_tokens(of), -of.plan.predicted.samples_per_s);
  });
  Plans kept;
  for (ClusterCandidate& one : plans) {
    if (kept.empty() || one.plan.predicted.samples_per_s > kept.back().plan.predicted.samples_per_s)
      kept.push_back(std::move(one));
  }
  return kept;
}

}  // namespace

std::string trade_off_page(const ClusterQuestion& question, const ClusterAnswer& answer,
                           const Plans& by_memory, const Plans& by_devices) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>tandem plan</title>\n"
      "<style>body{{font-family:sans-serif;max-width:60em;margin:2em auto}}svg{{max-width:100%}}"
      "</style>\n<h1>{} on {}, batches of {}</h1>\n",
      xml(question.base.plan.model.name), xml(question.base.cluster->name()),
      question.global_batch);
  for (const std::string& line : answer_in_words(question, answer))
    page += fmt::format("<p>{}</p>\n", xml(line));
  page += plot_svg(
      plot_of("Within less memory", "GiB of the fullest device", by_memory,
              [](const auto& of) { return static_cast<double>(of.peak_bytes) / (1 << 30); }));
  page += plot_svg(plot_of("On fewer devices", "devices", by_devices,
                           [](const auto& of) { return static_cast<double>(of.devices); }));
  Plans priced = by_memory;
  priced.insert(priced.end(), by_devices.begin(), by_devices.end());
  if (std::ranges::all_of(priced, [](const auto& of) { return of.usd.has_value(); })) {
    page += plot_svg(plot_of("Of these, none is faster and cheaper than another",
                             "US$ a million tokens", undominated(std::move(priced)),
                             usd_of_million_tokens));
  }
  return page + "</html>\n";
}

}  // namespace tandem::tools
