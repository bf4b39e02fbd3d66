// The report as a static picture: timeline and what devices hold, in SVG that every viewer and
// converter reads: no script, no variables; only the ground's colours change in the dark.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/units.h"
#include "traces/report/report.h"
#include "traces/report/report_looks.h"
#include "traces/svg.h"

namespace tandem {
namespace {

constexpr double kWidth = 1000, kGutter = 108, kRight = 12, kTop = 40, kAxis = 20;
constexpr double kCompute = 24, kLink = 9, kLinkGap = 2, kGap = 8, kHeadRow = 15;
constexpr std::size_t kHeadLetters = 160;  // in a line of the head
constexpr double kStrip = 42, kStripGap = 10, kLegendRow = 18;
constexpr std::size_t kMostBytes = 1'000'000;

/// "send activation to 1" as "activation \u2192 1".
std::string short_title(std::string_view lane) {
  std::string text(lane);
  const auto arrow = [&](std::string_view verb, std::string_view link, std::string_view sign) {
    const std::size_t at = text.rfind(link);
    if (!text.starts_with(verb) || at == std::string::npos) return;
    text.replace(at, link.size(), sign).erase(0, verb.size());
  };
  arrow("send ", " to ", " \u2192 ");
  arrow("receive ", " from ", " \u2190 ");
  return text;
}

class Picture {
 public:
  Picture(const Report& report, const PictureDetail& detail)
      : report_(report), chart_(report.frames.front().chart), detail_(detail) {
    const auto length = static_cast<double>((chart_.end - chart_.start).count());
    scale_ = (kWidth - kGutter - kRight) / std::max(length, 1.0);
  }

  std::string text() {
    double y = draw_head(kTop);
    y = draw_rows(draw_axis(y));
    y = draw_legend(y + 4);
    y = draw_memory(y + 10);
    return svg_head(kWidth, y + 8, report_.title, report_.command) + body_ + "</svg>\n";
  }

 private:
  std::string left_out() const {
    std::string text;
    const auto lack = [&](std::string_view what) {
      text +=
          fmt::format("{}{}", text.empty() ? "Left out, to stay under a megabyte: " : "; ", what);
    };
    if (detail_.devices < chart_.devices)
      lack(fmt::format("devices {} to {}", detail_.devices, chart_.devices - 1));
    if (!detail_.links) lack("links and collectives");
    if (detail_.smallest > PictureDetail{0}.smallest) {
      const Duration shortest(std::llround(detail_.smallest / scale_));
      lack(fmt::format("boxes shorter than {} are drawn with their neighbours",
                       print_duration(shortest)));
    }
    return text;
  }

  /// Nobody will see it: the next one is coarser.
  bool too_large() const { return body_.size() > kMostBytes; }

  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Values>(values)...);
  }

  double x(Duration time) const {
    return kGutter + static_cast<double>((time - chart_.start).count()) * scale_;
  }

  /// What is run, on what, what came out, and what is left out.
  double draw_head(double y) {
    std::vector<std::string> lines;
    std::istringstream summary(report_.summary);
    for (std::string line; std::getline(summary, line);) lines.push_back(line);
    std::string facts;
    for (const ReportFact& fact : report_.frames.front().facts) {
      const std::string next = fmt::format("{} {}", fact.name, fact.text);
      if (!facts.empty() && facts.size() + next.size() > kHeadLetters)
        lines.push_back(std::exchange(facts, ""));
      facts += (facts.empty() ? "" : " \u00b7 ") + next;
    }
    if (!facts.empty()) lines.push_back(facts);
    if (const std::string lack = left_out(); !lack.empty()) lines.push_back(lack);
    for (const std::string& line : lines) {
      add("<text class=\"m f\" x=\"12\" y=\"{:g}\">{}</text>\n", y, xml(line));
      y += kHeadRow;
    }
    return y - 1;
  }

  double draw_axis(double y) {
    const auto length = static_cast<double>((chart_.end - chart_.start).count());
    if (length <= 0.0) return y + kAxis;
    const double wanted = length / 10.0, power = std::pow(10.0, std::floor(std::log10(wanted)));
    double step = 10.0 * power;
    for (const double digit : {5.0, 2.0, 1.0}) {
      if (digit * power >= wanted) step = digit * power;
    }
    for (double tick = 0.0; tick <= length; tick += step) {
      const double at = kGutter + tick * scale_;
      add(R"(<path class="l" d="M{0:.1f} {1:g}v4"/>)", at, y + kAxis - 6);
      add("<text class=\"m s\" x=\"{:.1f}\" y=\"{:g}\" text-anchor=\"{}\">{}</text>\n", at,
          y + kAxis - 9, at > kWidth - 40 ? "end" : "middle",
          tick == 0.0 ? "0" : print_duration(Duration(std::llround(tick))));
    }
    return y + kAxis;
  }

  double draw_rows(double y) {
    auto idle = chart_.idle.begin();
    for (std::size_t row = 0; row < chart_.rows.size(); ++row) {
      const ChartRow& of = chart_.rows[row];
      const bool compute = row == 0 || chart_.rows[row - 1].device != of.device;
      if (index(of.device) >= detail_.devices || too_large()) break;
      if (!compute && !detail_.links) continue;
      const double height = compute ? kCompute : kLink;
      if (compute) {
        if (row > 0) y += kGap - kLinkGap;
        add("<text x=\"12\" y=\"{:g}\">device {}</text>\n", y + 16, index(of.device));
        const auto first = idle;
        while (idle != chart_.idle.end() && idle->device == of.device) ++idle;
        draw_idle({first, idle}, y);
      } else {
        add("<text class=\"m s\" x=\"20\" y=\"{:g}\">{}</text>\n", y + kLink - 1.5,
            xml(short_title(of.title)));
      }
      draw_boxes(row, compute, y, height);
      y += height + kLinkGap;
    }
    return y + kGap;
  }

  /// The ground of the whole run, which boxes then cover, and how long what stays of it is.
  void draw_idle(std::span<const ChartIdle> all, double y) {
    if (all.empty()) return;
    rectangle("none", R"( class="i")", kGutter, y, x(chart_.end) - kGutter, kCompute);
    body_ += '\n';
    for (const ChartIdle& idle : all) {
      const double from = x(idle.start), width = x(idle.end) - from;
      if (width < 44) continue;
      add("<text class=\"m s\" x=\"{:.1f}\" y=\"{:g}\" text-anchor=\"middle\">{}</text>\n",
          from + width / 2, y + 15, print_duration(idle.end - idle.start));
    }
  }

  /// Boxes in a row that are too narrow to see, side by side.
  struct Narrow {
    double from = 0.0, to = -1.0;
    std::map<OpKind, double> widths;
  };

  void draw_boxes(std::size_t row, bool compute, double y, double height) {
    Narrow narrow;
    for (std::size_t i = chart_.rows[row].first_box; i < chart_.row_end(row); ++i) {
      const ChartBox& box = chart_.boxes[i];
      const double from = x(box.start), to = x(box.end);
      if (to - from >= detail_.smallest || (box.end == box.start && has_room(row, i))) {
        flush(narrow, compute);
        draw_box(box, compute, y, height);
        continue;
      }
      if (narrow.to >= 0.0 && (from > narrow.to + 0.5 || to - narrow.from > 2.5 * detail_.smallest))
        flush(narrow, compute);
      if (narrow.to < 0.0) narrow.from = from;
      narrow.to = to;
      narrow.widths[box.kind] += to - from;
    }
    flush(narrow, compute);
    for (const auto& [colour, lines] : thin_) {
      add("<path fill=\"none\" stroke=\"{}\" stroke-width=\"{:g}\" d=\"M0 {:g}{}\"/>\n", colour,
          height, y + height / 2, lines.text);
    }
    thin_.clear();
  }

  /// A box of no length is marked where it hides nothing: where what is before it begins some
  /// pixels before, or what is after it ends some after.
  bool has_room(std::size_t row, std::size_t i) const {
    const double at = x(chart_.boxes[i].start);
    return i == chart_.rows[row].first_box || at - x(chart_.boxes[i - 1].start) >= 4 ||
           i + 1 == chart_.row_end(row) || x(chart_.boxes[i + 1].end) - at >= 4;
  }

  /// Each kind as wide as its boxes together, so that what they leave free stays free. What stands
  /// alone on a link is wide enough to be seen.
  void flush(Narrow& narrow, bool compute) {
    double from = narrow.from, all = 0.0;
    for (const auto& [kind, width] : narrow.widths) all += width;
    const bool lone = !compute && narrow.to - narrow.from < detail_.smallest && all > 0.0;
    for (const auto& [kind, width] : narrow.widths) {
      const double drawn = lone ? width / all * 1.5 * detail_.smallest : width;
      thin(traits(kind).colour, from, drawn);
      from += drawn;
    }
    narrow = {};
  }

  /// A box with nothing in or around it: a piece of a line as thick as the row, which takes a tenth
  /// of the bytes of a rectangle. Moves are relative and in hundredths, so that errors don't add
  /// up.
  void thin(std::string_view colour, double from, double width) {
    Thin& line = thin_[colour];
    const std::int64_t start = std::llround(from * 100), end = std::llround((from + width) * 100);
    line.text += fmt::format("m{:g} 0h{:g}", static_cast<double>(start - line.end) / 100,
                             static_cast<double>(end - start) / 100);
    line.end = end;
  }

  void rectangle(std::string_view fill, std::string_view more, double from, double y, double width,
                 double height) {
    add(R"(<rect{} fill="{}" x="{:.2f}" y="{:g}" width="{:.2f}" height="{:g}"/>)", more, fill, from,
        y, width, height);
  }

  void draw_box(const ChartBox& box, bool compute, double y, double height) {
    const double from = x(box.start), width = x(box.end) - from;
    if (box.end == box.start) {
      rectangle(traits(box.kind).colour, "", from - 1, y - 1, 2, height + 2);
      body_ += '\n';
      return;
    }
    const OpTraits& look = traits(box.kind);
    if (width <= 3) return thin(look.colour, from, width);
    rectangle(look.colour, R"( class="e")", from, y, width, height);
    if (look.hatch) rectangle("url(#w)", "", from, y, width, height);
    if (compute) draw_number(box, from, width, y, height);
    body_ += '\n';
  }

  void draw_number(const ChartBox& box, double from, double width, double y, double height) {
    const bool bar = chart_.several_versions && box.version.has_value();
    if (bar && width > 3) {
      rectangle(*box.version % 2 == 1 ? "#000" : "#fff", "", from + 0.7, y + height - 5,
                width - 1.4, 4);
    }
    std::string number = makes_version(box.kind) ? std::string(traits(box.kind).letter)
                                                 : std::to_string(box.microbatch);
    if (chart_.chunks == 2 && box.chunk == 1) number += '\'';
    if (chart_.chunks > 2) number += static_cast<char>('a' + box.chunk % 26);
    const auto length = static_cast<double>(number.size());
    if (6.4 * length + 3 > width) return;
    const std::string version = bar ? fmt::format("v{}", *box.version) : "";
    const bool both = bar && 6.4 * length + 5.0 * static_cast<double>(version.size()) + 7 <= width;
    add(R"(<text class="n" x="{:.2f}" y="{:g}" text-anchor="middle">{}{}</text>)", from + width / 2,
        y + height / 2 + (bar ? 1.5 : 4), number,
        both ? fmt::format(R"(<tspan class="s n" dx="2" dy="-1">{}</tspan>)", version) : "");
  }

  /// Swatches with their words, in as many rows as they need.
  class Legend {
   public:
    Legend(Picture& picture, double y) : picture_(picture), y_(y) {}
    void add(std::string_view colour, std::string_view title, std::string_view more = "",
             bool hatch = false) {
      const double length = 34 + 6.2 * static_cast<double>(title.size());
      if (x_ + length > kWidth) {
        x_ = kGutter;
        y_ += kLegendRow;
      }
      picture_.rectangle(colour, more, x_, y_, 16, 10);
      if (hatch) picture_.rectangle("url(#w)", "", x_, y_, 16, 10);
      picture_.add("<text x=\"{:.1f}\" y=\"{:g}\">{}</text>\n", x_ + 21, y_ + 9, title);
      x_ += length;
    }
    double end() const { return y_ + kLegendRow; }

   private:
    Picture& picture_;
    double x_ = kGutter, y_;
  };

  double draw_legend(double y) {
    Legend legend(*this, y);
    for (const OpTraits& look : kOpTraits) {
      const bool there = std::ranges::count(chart_.boxes, look.kind, &ChartBox::kind) > 0;
      const bool shown = detail_.links || on_compute_lane(look.kind);
      if (there && shown) legend.add(look.colour, look.title, "", look.hatch);
    }
    if (!chart_.idle.empty()) legend.add("none", "idle: a bubble", R"( class="i")");
    if (chart_.several_versions) legend.add("#000", "bar: odd version of the weights");
    return legend.end();
  }

  /// The scale of all strips: the most that any device holds or has.
  double most() const {
    std::int64_t most = 1;
    for (const DeviceId device : ids(chart_.in_flight)) {
      if (!chart_.memory) {
        most = std::max(most, peak_of(chart_.in_flight[device]));
        continue;
      }
      const ChartMemory& memory = *chart_.memory;
      const Bytes standing = memory.peak[device].total() - memory.peak[device].activations;
      most = std::max({most, memory.peak[device].total(),
                       standing + peak_of(memory.activations[device]),
                       memory.capacity ? (*memory.capacity)[device] : 0});
    }
    return static_cast<double>(most);
  }

  double draw_memory(double y) {
    const double most_held = most();
    y = draw_axis(y);
    for (const DeviceId device : ids(chart_.in_flight)) {
      if (index(device) >= detail_.devices || too_large()) break;
      draw_strip(device, y + kStrip, kStrip / most_held);
      draw_ticks(y + kStrip, most_held);
      y += kStrip + kStripGap;
    }
    Legend legend(*this, y);
    if (!chart_.memory) {
      legend.add(kInFlight, "microbatches in flight");
      return legend.end();
    }
    for (const MemoryBand& band : kBands) {
      const auto held = [&](const MemoryByClass& of) { return of.*band.bytes > 0; };
      if (std::ranges::any_of(chart_.memory->peak, held)) legend.add(band.colour, band.title);
    }
    legend.add(kActivations, "activations in use");
    if (chart_.memory->capacity) legend.add("none", "capacity", R"( class="c")");
    return legend.end();
  }

  /// Two or three values with their lines: halves of a power of two.
  void draw_ticks(double bottom, double most) {
    const double step = std::exp2(std::floor(std::log2(most))) / 2;
    for (double value = step; value <= most; value += step) {
      if (value < 1.0) continue;  // half a microbatch
      const double y = bottom - kStrip * value / most;
      add(R"(<path class="l" stroke-opacity="0.5" d="M{:g} {:.1f}H{:g}"/>)", kGutter - 3, y,
          kWidth - kRight);
      add("<text class=\"m s\" x=\"{:g}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
          kGutter - 6, y + 3,
          chart_.memory ? print_bytes(std::llround(value)) : fmt::format("{:g}", value));
    }
  }

  void draw_strip(DeviceId device, double bottom, double scale) {
    const double width = kWidth - kRight - kGutter;
    add(R"(<rect class="i" x="{:g}" y="{:g}" width="{:g}" height="{:g}"/>)", kGutter,
        bottom - kStrip, width, kStrip);
    add("<text x=\"12\" y=\"{:g}\">device {}</text>", bottom - kStrip / 2 - 2, index(device));
    if (!chart_.memory) {
      const Curve& curve = chart_.in_flight[device];
      draw_curve(curve, kInFlight, bottom, scale);
      add("<text class=\"m s\" x=\"12\" y=\"{:g}\">at most {}</text>\n", bottom - kStrip / 2 + 11,
          peak_of(curve));
      return;
    }
    const MemoryByClass& peak = chart_.memory->peak[device];
    double y = bottom;
    for (const MemoryBand& band : kBands) {
      const double height = static_cast<double>(peak.*band.bytes) * scale;
      if (height > 0.0) rectangle(band.colour, "", kGutter, y - height, width, height);
      y -= height;
    }
    draw_curve(chart_.memory->activations[device], kActivations, y, scale);
    const auto rule = [&](std::string_view look, Bytes bytes) {
      add(R"(<path class="{}" d="M{:g} {:.2f}h{:g}"/>)", look, kGutter,
          bottom - static_cast<double>(bytes) * scale, width);
    };
    rule("p", peak.total());
    if (chart_.memory->capacity) rule("c", (*chart_.memory->capacity)[device]);
    add("<text class=\"m s\" x=\"12\" y=\"{:g}\">{}</text>\n", bottom - kStrip / 2 + 11,
        print_bytes(peak.total()));
  }

  /// Steps closer than half a pixel or so are drawn as the highest of them.
  void draw_curve(const Curve& curve, std::string_view colour, double bottom, double scale) {
    const double end = x(chart_.end);
    add(R"(<path fill="{}" d="M{:g} {:.2f})", colour, kGutter, bottom);
    for (std::size_t i = 0; i < curve.size(); ++i) {
      const double at = x(std::max(curve[i].time, chart_.start));
      std::int64_t highest = curve[i].value;
      while (i + 1 < curve.size() && x(curve[i + 1].time) < at + 0.625 * detail_.smallest)
        highest = std::max(highest, curve[++i].value);
      add("H{:.1f}V{:.1f}", at, bottom - static_cast<double>(highest) * scale);
      if (highest != curve[i].value) add("V{:.1f}", bottom - double(curve[i].value) * scale);
    }
    add("H{:.2f}V{:.2f}Z\"/>\n", end, bottom);
  }

  struct Thin {
    std::string text;
    std::int64_t end = 0;  // in hundredths of a pixel
  };

  const Report& report_;
  const Chart& chart_;
  const PictureDetail detail_;
  double scale_;  // pixels a nanosecond
  std::string body_;
  std::map<std::string_view, Thin> thin_;  // of the row that is being drawn, by colour
};

}  // namespace

std::string report_picture(const Report& report) {
  TANDEM_CHECK(!report.frames.empty());
  PictureDetail detail{.devices = report.frames.front().chart.devices};
  std::string text = Picture(report, detail).text();
  while (text.size() > kMostBytes && detail.make_coarser()) text = Picture(report, detail).text();
  return text;
}

}  // namespace tandem
