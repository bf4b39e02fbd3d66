// The report as a page: its sources in traces/report/page/, in the binary, and the data.
// TANDEM_REPORT: their folder.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/utf8.h"
#include "core/text/embedded.h"
#include "traces/chrome/atomic_file.h"
#include "traces/report/report.h"

namespace tandem {
namespace {

TANDEM_EMBED(report_html, TANDEM_REPORT "/page.html");
TANDEM_EMBED(report_style, TANDEM_REPORT "/page.css");
TANDEM_EMBED(report_data, TANDEM_REPORT "/data.js");
TANDEM_EMBED(report_columns, TANDEM_REPORT "/columns.js");
TANDEM_EMBED(report_timeline, TANDEM_REPORT "/timeline.js");
TANDEM_EMBED(report_memory, TANDEM_REPORT "/memory.js");
TANDEM_EMBED(report_pointer, TANDEM_REPORT "/pointer.js");
TANDEM_EMBED(report_wiring, TANDEM_REPORT "/page.js");

using Json = nlohmann::ordered_json;

/// A column of integers of a table with a row a box: far smaller than a row of names and values.
using Column = std::vector<std::int64_t>;

/// What many boxes have in common.
Json types_of(const Chart& chart, Column& types) {
  std::map<std::pair<OpKind, ReplicaId>, std::int64_t> found;
  Json json = Json::array();
  for (const ChartBox& box : chart.boxes) {
    const auto [type, fresh] = found.try_emplace({box.kind, box.replica}, std::ssize(found));
    if (fresh) {
      json.push_back(
          {{"kind", name(box.kind)}, {"stage", index(box.replica)}, {"chunk", box.chunk}});
    }
    types.push_back(type->second);
  }
  return json;
}

/// Times count from the chart's start. A box begins `gap` after its row's last one ended, which is
/// 0 or a small number; it is negative only where boxes overlap.
Json boxes_json(const Chart& chart) {
  Column type, microbatch, version, gap, length, critical;
  Json types = types_of(chart, type);
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    Duration last = chart.start;
    for (std::size_t i = chart.rows[row].first_box; i < chart.row_end(row); ++i) {
      const ChartBox& box = chart.boxes[i];
      microbatch.push_back(box.microbatch);
      version.push_back(box.version.value_or(-1));
      gap.push_back((box.start - last).count());
      length.push_back((box.end - box.start).count());
      if (chart.knows_critical) critical.push_back(box.critical ? 1 : 0);
      last = box.end;
    }
  }
  return {{"types", std::move(types)}, {"type", type}, {"microbatch", microbatch},
          {"version", version},        {"gap", gap},   {"length", length},
          {"critical", critical}};
}

Json rows_json(const Chart& chart) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    const ChartRow& of = chart.rows[row];
    const bool compute = row == 0 || chart.rows[row - 1].device != of.device;
    rows.push_back({{"device", index(of.device)},
                    {"compute", compute},
                    {"title", of.title},
                    {"boxes", chart.row_end(row) - of.first_box}});
  }
  return rows;
}

Json idle_json(const Chart& chart) {
  Column device, start, length, cause;
  for (const ChartIdle& idle : chart.idle) {
    device.push_back(static_cast<std::int64_t>(index(idle.device)));
    start.push_back((idle.start - chart.start).count());
    length.push_back((idle.end - idle.start).count());
    cause.push_back(idle.cause ? static_cast<std::int64_t>(*idle.cause) : -1);
  }
  return {{"device", device}, {"start", start}, {"length", length}, {"cause", cause}};
}

Json curve_json(const Chart& chart, const Curve& curve) {
  Column time, value;
  for (const Step& step : curve) {
    time.push_back((std::max(step.time, chart.start) - chart.start).count());
    value.push_back(step.value);
  }
  return {{"time", time}, {"value", value}};
}

/// Bands that stand all run long, and on top of them the curve.
Json memory_json(const Chart& chart) {
  Json devices = Json::array();
  for (const DeviceId device : ids(chart.in_flight)) {
    if (!chart.memory) {
      devices.push_back({{"curve", curve_json(chart, chart.in_flight[device])}});
      continue;
    }
    const MemoryByClass& peak = chart.memory->peak[device];
    devices.push_back({{"bands",
                        {{"weights", peak.weights},
                         {"versions", peak.versions},
                         {"gradients", peak.gradients},
                         {"optimizer", peak.optimizer},
                         {"buffers", peak.buffers}}},
                       {"peak", peak.total()},
                       {"capacity", nullptr},
                       {"curve", curve_json(chart, chart.memory->activations[device])}});
    if (chart.memory->capacity) devices.back()["capacity"] = (*chart.memory->capacity)[device];
  }
  return {{"bytes", chart.memory.has_value()}, {"devices", std::move(devices)}};
}

Json frame_json(const ReportFrame& frame) {
  Json facts = Json::array();
  for (const ReportFact& fact : frame.facts) {
    facts.push_back(
        {{"name", fact.name}, {"text", fact.text}, {"number", fact.number}, {"share", fact.share}});
  }
  const Chart& chart = frame.chart;
  return {
      {"label", frame.label},
      {"devices", chart.devices},
      {"chunks", chart.chunks},
      {"several_versions", chart.several_versions},
      {"length", (chart.end - chart.start).count()},
      {"facts", std::move(facts)},
      {"table",
       {{"columns", frame.table.columns}, {"rows", frame.table.rows}, {"note", frame.table.note}}},
      {"rows", rows_json(chart)},
      {"boxes", boxes_json(chart)},
      {"idle", idle_json(chart)},
      {"memory", memory_json(chart)}};
}

/// What a kind of op looks like, by its name.
Json kinds_json() {
  Json kinds;
  for (const OpTraits& look : kOpTraits) {
    kinds[std::string(name(look.kind))] = {{"title", look.title},
                                           {"colour", look.colour},
                                           {"hatch", look.hatch},
                                           {"letter", look.letter},
                                           {"phrase", look.phrase},
                                           {"version", look.makes_version},
                                           {"compute", on_compute_lane(look.kind)}};
  }
  return kinds;
}

/// Texts as they may be shown: a name turns no line around.
void make_printable(Json& json) {
  if (json.is_string()) json = printable(json.get_ref<const std::string&>());
  if (!json.is_structured()) return;
  for (Json& part : json) make_printable(part);
}

/// Within a script element: no "<" may stand in it, for "</script" would end it. Variations have
/// the keys `what_if` and `what_if_note`, as the format was published.
std::string data_of(const Report& report) {
  Json json{{"version", 1},
            {"title", report.title},
            {"summary", report.summary},
            {"command", report.command},
            {"tool", report.tool},
            {"assumptions", report.assumptions},
            {"kinds", kinds_json()},
            {"what_if", Json::array()},
            {"what_if_note", report.variations_note},
            {"frames", Json::array()}};
  for (const ReportSlider& question : report.variations) {
    json["what_if"].push_back({{"name", question.name},
                               {"asked", question.asked},
                               {"list", question.list},
                               {"frames", question.frames}});
  }
  for (const ReportFrame& frame : report.frames) json["frames"].push_back(frame_json(frame));
  make_printable(json);
  std::string escaped;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace))
    escaped += c == '<' ? "\\u003c" : std::string(1, c);  // only strings hold one
  return escaped;
}

void check(const Report& report) {
  TANDEM_CHECK(!report.frames.empty());
  for (const ReportFrame& frame : report.frames) {
    for (const auto& row : frame.table.rows)
      TANDEM_CHECK(row.size() == frame.table.columns.size(), row.size());
  }
  for (const ReportSlider& question : report.variations) {
    for (const std::size_t frame : question.frames)
      TANDEM_CHECK(frame < report.frames.size(), frame);
    const bool asked_for = std::ranges::count(question.frames, 0U) > 0;
    TANDEM_CHECK(asked_for);
  }
}

}  // namespace

std::string report_page(const Report& report) {
  check(report);
  // Each is put where its mark stands: the page's text up to there, then the part.
  std::string script;
  for (const std::string_view part : {report_data(), report_columns(), report_timeline(),
                                      report_memory(), report_pointer(), report_wiring()})
    script += part;
  const std::array<std::pair<std::string_view, std::string>, 3> parts{
      {{"/* style */", std::string(report_style())},
       {"/* data */", data_of(report)},
       {"/* script */", std::move(script)}}};
  std::string_view rest = report_html();
  std::string page;
  for (const auto& [mark, part] : parts) {
    const std::size_t at = rest.find(mark);
    TANDEM_CHECK(at != std::string_view::npos);
    page.append(rest.substr(0, at)).append(part);
    rest.remove_prefix(at + mark.size());
  }
  return page.append(rest);
}

void write_report(const std::filesystem::path& path, const Report& report) {
  const bool page = path.extension() == ".html";
  TANDEM_CHECK(page || path.extension() == ".svg");
  AtomicFile file(path);
  file.write(page ? report_page(report) : report_picture(report));
  file.finish();
}

}  // namespace tandem
