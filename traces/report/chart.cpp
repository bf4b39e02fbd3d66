#include "traces/report/chart.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/check.h"
#include "core/program/title.h"
#include "core/program/versions.h"

namespace tandem {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class ChartMaker {
 public:
  ChartMaker(const Program& program, const Timeline& timeline, const std::vector<bool>& critical)
      : program_(program), timeline_(timeline), critical_(critical), version_of_(program) {
    for (const DeviceId device : all_ids<DeviceId>(program.placement().devices)) {
      const auto replicas = program.placement().replicas_on(device);
      for (std::size_t i = 0; i < replicas.size(); ++i)
        chunk_of_[replicas[i]] = static_cast<std::uint16_t>(i);
      chart_.chunks = std::max(chart_.chunks, static_cast<std::uint16_t>(replicas.size()));
    }
  }

  Chart make() {
    chart_.devices = program_.placement().devices;
    chart_.knows_critical = !critical_.empty();
    for (const Span& span : timeline_.spans) {
      const bool first = &span == &timeline_.spans.front();
      chart_.start = first ? span.start : std::min(chart_.start, span.start);
      chart_.end = std::max(chart_.end, span.end);
    }
    for (const Instruction& instruction : program_.instructions())
      chart_.several_versions = chart_.several_versions || instruction.op.staleness > 0;
    place_boxes();
    find_idle();
    chart_.in_flight = curves_of(program_, timeline_, {}).in_flight;
    return std::move(chart_);
  }

 private:
  /// Orders the rows: device, then compute first, what has no lane last, and peers ascending.
  using Key = std::tuple<DeviceId, bool, LaneKind, DeviceId>;
  struct Placed {
    Key row;
    std::size_t span;
  };

  static Key key_of(const Lane& lane) { return {lane.device, false, lane.kind, lane.peer}; }

  std::int64_t key_of(InstructionId instruction, std::int64_t body) const {
    return body * static_cast<std::int64_t>(program_.size()) +
           static_cast<std::int64_t>(index(instruction));
  }

  Key transit_of(const Span& span) const {
    const CostKey& price = program_.cost_keys()[program_[span.instruction].cost];
    return {price.source, true, LaneKind::compute, price.source};
  }

  void place_boxes() {
    std::vector<Placed> placed;
    std::map<Key, std::string> titles;
    for (const DeviceId device : all_ids<DeviceId>(program_.placement().devices)) {
      const Lane compute{.device = device, .kind = LaneKind::compute, .peer = device};
      titles[key_of(compute)] = title_of(compute);
    }
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) {
      const Span& span = timeline_.spans[i];
      const auto lanes = program_.lanes(program_[span.instruction]);
      for (const LaneId lane : lanes) {
        placed.push_back({key_of(program_.lanes()[lane]), i});
        titles[placed.back().row] = title_of(program_.lanes()[lane]);
      }
      if (!lanes.empty()) continue;
      placed.push_back({transit_of(span), i});
      titles[placed.back().row] = "in transit";
    }
    std::ranges::stable_sort(placed, {}, [&](const Placed& one) {
      const Span& span = timeline_.spans[one.span];
      return std::tie(one.row, span.start, span.end);
    });
    box_of_span_.assign(timeline_.spans.size(), kNone);
    std::size_t next = 0;
    for (const auto& [row, title] : titles) {
      chart_.rows.push_back({std::get<0>(row), std::get<2>(row), title, next});
      for (; next < placed.size() && placed[next].row == row; ++next) {
        std::size_t& box = box_of_span_[placed[next].span];
        if (box == kNone) box = next;
        chart_.boxes.push_back(box_of(timeline_.spans[placed[next].span]));
        chart_.boxes.back().critical = !critical_.empty() && critical_[placed[next].span];
        span_of_box_.push_back(placed[next].span);
      }
    }
  }

  ChartBox box_of(const Span& span) const {
    const Op& op = program_[span.instruction].op;
    const std::int64_t microbatch = span.body * program_.microbatches() + op.microbatch;
    return {.kind = op.kind,
            .replica = op.replica,
            .chunk = chunk_of_.at(op.replica),
            .microbatch = microbatch,
            .version = version_of_({span.instruction, span.body, microbatch}),
            .start = span.start,
            .end = span.end};
  }

  void find_idle() {
    for (std::size_t i = 0; i < timeline_.spans.size(); ++i) {
      const Span& span = timeline_.spans[i];
      span_of_[key_of(span.instruction, span.body)] = i;
    }
    for (std::size_t row = 0; row < chart_.rows.size(); ++row) {
      const DeviceId device = chart_.rows[row].device;
      const bool first = row == 0 || chart_.rows[row - 1].device != device;
      if (!first) continue;
      Duration free = chart_.start;
      for (std::size_t box = chart_.rows[row].first_box; box < chart_.row_end(row); ++box) {
        const ChartBox& of = chart_.boxes[box];
        if (of.start > free)
          chart_.idle.push_back({device, free, of.start, cause_of(span_of_box_[box], free)});
        free = std::max(free, of.end);
      }
      if (free < chart_.end) chart_.idle.push_back({device, free, chart_.end, {}});
    }
  }

  /// The box that ended last of those that the span waited for, if after `free`.
  std::optional<std::size_t> cause_of(std::size_t waiting, Duration free) const {
    const Span& span = timeline_.spans[waiting];
    std::optional<std::size_t> cause;
    Duration latest = free;
    for (const Wait& wait : program_.waits(program_[span.instruction])) {
      const auto producer = span_of_.find(key_of(wait.producer, span.body - wait.lag));
      if (producer == span_of_.end() || timeline_.spans[producer->second].end <= latest) continue;
      latest = timeline_.spans[producer->second].end;
      cause = box_of_span_[producer->second];
    }
    return cause;
  }

  const Program& program_;
  const Timeline& timeline_;
  const std::vector<bool>& critical_;
  WeightVersions version_of_;
  std::map<ReplicaId, std::uint16_t> chunk_of_;
  std::vector<std::size_t> box_of_span_, span_of_box_;
  std::unordered_map<std::int64_t, std::size_t> span_of_;  // by key_of() its instance
  Chart chart_;
};

}  // namespace

Chart chart_of(const Program& program, const Timeline& timeline, std::optional<ChartMemory> memory,
               const std::vector<bool>& critical) {
  const std::size_t devices = program.placement().devices;
  TANDEM_CHECK(!memory || memory->peak.size() == devices);
  TANDEM_CHECK(!memory || memory->activations.size() == devices);
  TANDEM_CHECK(!memory || !memory->capacity || memory->capacity->size() == devices);
  TANDEM_CHECK(critical.empty() || critical.size() == timeline.spans.size());
  Chart chart = ChartMaker(program, timeline, critical).make();
  chart.memory = std::move(memory);
  return chart;
}

}  // namespace tandem
