#include "traces/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/units.h"
#include "core/program/title.h"

namespace tandem {
namespace {

constexpr char kIdle = '.';
constexpr char kInstantUpdate = '|';
constexpr int kLabelGap = 10;  // columns between two labels of the axis, at least
constexpr double kWidestMean =
    12;  // columns of an average box: else one slow kind would fill the picture

/// One drawn span.
struct Box {
  std::size_t device = 0;
  std::size_t chunk = 0;  // which of the device's stages
  const OpTraits* look = nullptr;
  std::int64_t microbatch = 0;
  Duration start{}, end{};
  Duration length() const { return end - start; }
};

struct Cell {
  char glyph = ' ';
  const OpTraits* look = nullptr;
};
using Row = std::vector<Cell>;

/// Time → column.
struct Scale {
  Duration origin{}, end{};
  double per_column_ns = 1;
  int dots = 1;     // an idle mark every so many columns
  int columns = 0;  // drawn

  double exact_column(Duration time) const {
    return std::round(static_cast<double>((time - origin).count()) / per_column_ns);
  }
  std::int64_t column(Duration time) const {
    return static_cast<std::int64_t>(std::clamp(exact_column(time), 0.0, double(columns)));
  }
  bool shows(Duration time) const { return exact_column(time) <= columns; }
  bool whole() const { return shows(end); }
};

int digits(std::int64_t number) { return static_cast<int>(std::to_string(number).size()); }

/// Tells the stages of one device apart: nothing and ' for two, letters for more.
std::string mark(std::size_t chunk, std::size_t chunks) {
  if (chunks <= 1 || (chunks == 2 && chunk == 0)) return "";
  if (chunks == 2) return "'";
  return std::string(1, static_cast<char>('a' + chunk % 26));
}

/// Draws boxes into rows of cells.
class Canvas {
 public:
  Canvas(std::size_t devices, std::size_t chunks, const Scale& scale)
      : scale_(scale), chunks_(chunks) {
    Row row(static_cast<std::size_t>(scale.column(scale.end)));
    for (std::size_t i = 0; i < row.size(); i += static_cast<std::size_t>(scale.dots))
      row[i].glyph = kIdle;
    rows_.assign(devices, row);
  }

  void draw(const std::vector<Box>& boxes) {
    std::vector<const Box*> narrow;
    for (const Box& box : boxes) {
      if (box.length() <= Duration::zero()) continue;
      if (scale_.column(box.end) > scale_.column(box.start))
        paint(box, scale_.column(box.start), scale_.column(box.end));
      else if (scale_.column(box.start) < std::int64_t(rows_[box.device].size()))
        narrow.push_back(&box);
    }
    // Less than half a column: drawn where it hides nothing.
    for (const Box* box : narrow) draw_narrow(*box);
    for (const Box& box : boxes) {
      if (box.length() <= Duration::zero()) draw_instant(box);
    }
  }

  const std::vector<Row>& rows() const { return rows_; }
  std::int64_t hidden() const { return hidden_; }
  bool instants() const { return instants_; }

 private:
  void paint(const Box& box, std::int64_t first, std::int64_t last) {
    Row& row = rows_[box.device];
    const auto width = static_cast<std::size_t>(last - first);
    std::string text;
    if (!is_optimizer(box.look->kind)) {
      text = std::to_string(box.microbatch) + mark(box.chunk, chunks_);
      if (text.size() > width) text = text.substr(text.size() - width);
    }
    text.resize(width, box.look->fill);
    for (std::size_t i = 0; i < width; ++i)
      row[static_cast<std::size_t>(first) + i] = {text[i], box.look};
  }

  void draw_narrow(const Box& box) {
    Row& row = rows_[box.device];
    const auto at = static_cast<std::size_t>(scale_.column(box.start));
    for (const std::size_t place : {at, at - 1}) {
      if (place < row.size() && row[place].look == nullptr)
        return paint(box, std::int64_t(place), std::int64_t(place) + 1);
    }
    ++hidden_;
  }

  /// An update that takes no time borrows the last column before it, unless a number stands there.
  void draw_instant(const Box& box) {
    Row& row = rows_[box.device];
    const auto at = static_cast<std::size_t>(scale_.column(box.start));
    if (!box.look->makes_version || at == 0 || !scale_.shows(box.start)) return;
    Cell& cell = row[at - 1];
    const char fill = cell.look == nullptr ? kIdle : cell.look->fill;
    if (cell.glyph != fill && cell.glyph != ' ') return;
    cell.glyph = kInstantUpdate;
    instants_ = true;
  }

  Scale scale_;
  std::size_t chunks_;
  std::vector<Row> rows_;
  std::int64_t hidden_ = 0;
  bool instants_ = false;
};

std::vector<Box> boxes_of(const Program& program, const Timeline& timeline) {
  const Placement& placement = program.placement();
  std::vector<std::size_t> chunk_of(placement.replicas());
  for (const DeviceId device : all_ids<DeviceId>(placement.devices)) {
    std::size_t chunk = 0;
    for (const ReplicaId replica : placement.replicas_on(device))
      chunk_of[index(replica)] = chunk++;
  }
  std::vector<Box> boxes;
  for (const Span& span : timeline.spans) {
    TANDEM_CHECK(index(span.instruction) < program.size(), index(span.instruction));
    const Op& op = program[span.instruction].op;
    const OpTraits* look = &traits(op.kind);
    if (look->fill == 0) continue;
    boxes.push_back({.device = index(placement.device[op.replica]),
                     .chunk = chunk_of[index(op.replica)],
                     .look = look,
                     .microbatch = span.body * program.microbatches() + op.microbatch,
                     .start = span.start,
                     .end = span.end});
  }
  std::ranges::sort(boxes, {}, [](const Box& box) {
    return std::tie(box.start, box.end, box.device, box.microbatch, box.chunk);
  });
  return boxes;
}

/// What the scale is chosen by.
struct Lengths {
  Duration origin = Duration::max(), end = Duration::min();
  Duration shortest = Duration::max();  // of the boxes with numbers
  Duration grid{};                      // divides every start and end
  double mean_ns = 0;
};

std::optional<Lengths> measure(const std::vector<Box>& boxes) {
  Lengths lengths;
  double sum = 0;
  std::int64_t count = 0;
  for (const Box& box : boxes) {
    lengths.origin = std::min(lengths.origin, box.start);
    lengths.end = std::max(lengths.end, box.end);
    if (box.length() <= Duration::zero() || is_optimizer(box.look->kind)) continue;
    lengths.shortest = std::min(lengths.shortest, box.length());
    sum += static_cast<double>(box.length().count());
    ++count;
  }
  if (count == 0) return std::nullopt;
  lengths.mean_ns = sum / static_cast<double>(count);
  std::int64_t grid = 0;
  for (const Box& box : boxes) {
    grid = std::gcd(grid, (box.start - lengths.origin).count());
    grid = std::gcd(grid, (box.end - lengths.origin).count());
  }
  lengths.grid = Duration(grid);
  return lengths;
}

/// A scale at which the shortest box has `width` columns: every boundary on a whole column where
/// durations allow it.
Scale scale_for(const Lengths& lengths, int width, int columns) {
  Scale scale{.origin = lengths.origin, .end = lengths.end, .columns = columns};
  const double widest = lengths.mean_ns / kWidestMean;
  const std::int64_t units = lengths.shortest / lengths.grid;
  if (units <= width) {
    const int per_unit = static_cast<int>((width + units - 1) / units);
    scale.per_column_ns = static_cast<double>(lengths.grid.count()) / per_unit;
    scale.dots = per_unit;
    if (scale.per_column_ns >= widest) return scale;
  }
  scale.dots =
      1;  // boundaries fall anywhere: only a full row of marks tells idle time from a forward's box
  scale.per_column_ns = std::max(static_cast<double>(lengths.shortest.count()) / width, widest);
  return scale;
}

/// The finest scale at which every number that is drawn has room, and a column to end it.
Scale choose_scale(const std::vector<Box>& boxes, const Lengths& lengths, std::size_t chunks,
                   int columns) {
  for (int room = 1;; ++room) {
    const Scale scale = scale_for(lengths, room + 1 + (chunks > 1 ? 1 : 0), columns);
    int needed = 1;
    for (const Box& box : boxes) {
      if (scale.column(box.start) < columns) needed = std::max(needed, digits(box.microbatch));
    }
    if (needed <= room) return scale;
  }
}

struct Unit {
  std::string_view name;
  double ns;
};
constexpr std::array<Unit, 4> kUnits{{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};

/// "ms 0         5         10", the first digit above its moment.
std::string axis(const Scale& scale, std::size_t margin) {
  double step = 1;
  constexpr std::array<double, 3> kFactors{2, 2.5, 2};  // 1, 2, 5, 10, …
  for (std::size_t i = 0; step / scale.per_column_ns < kLabelGap; ++i) step *= kFactors[i % 3];
  const auto* const unit =  // a step is a nanosecond at least
      std::ranges::find_if(kUnits, [&](const Unit& one) { return step >= one.ns; });
  std::string line = fmt::format("{:>{}} ", unit->name, margin - 1);
  const auto limit = static_cast<double>(scale.column(scale.end));
  for (double time = 0; std::round(time / scale.per_column_ns) <= limit; time += step) {
    const std::string label = fmt::format("{:.0f}", time / unit->ns);
    const auto at = margin + static_cast<std::size_t>(std::round(time / scale.per_column_ns));
    if (at + label.size() > margin + static_cast<std::size_t>(scale.columns)) break;
    line.resize(std::max(at, line.size()), ' ');
    line += label;
  }
  return line;
}

std::string in_color(std::string_view text, const OpTraits* look) {
  if (look == nullptr) return std::string(text);
  const auto part = [&](std::size_t at) {
    return std::stoul(std::string(look->colour.substr(at, 2)), nullptr, 16);
  };
  return fmt::format("\x1b[30;48;2;{};{};{}m{}\x1b[0m", part(1), part(3), part(5), text);
}

std::string print_row(const Row& row, bool color) {
  std::string line;
  for (std::size_t i = 0; i < row.size();) {
    std::size_t last = i;
    std::string text;
    while (last < row.size() && row[last].look == row[i].look) text += row[last++].glyph;
    line += color ? in_color(text, row[i].look) : text;
    i = last;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string legend(const std::vector<Box>& boxes, const Canvas& canvas, std::size_t chunks,
                   bool color) {
  std::string line;
  const auto add = [&line](std::string_view sample, std::string_view meaning) {
    line += fmt::format("{}{} {}", line.empty() ? "" : "   ", sample, meaning);
  };
  for (const OpTraits& look : kOpTraits) {
    const bool drawn = std::ranges::any_of(boxes, [&look](const Box& box) {
      return box.look == &look && box.length() > Duration::zero();
    });
    if (!drawn) continue;
    const std::string sample =
        is_optimizer(look.kind) ? std::string(1, look.fill) : fmt::format("3{0}{0}", look.fill);
    add(color ? in_color(sample, &look) : sample, words(look.name));
  }
  add(std::string(1, kIdle), "idle");
  if (canvas.instants()) add(std::string(1, kInstantUpdate), "update, takes no time");
  if (chunks == 2) add("3'", "second stage of the device");
  if (chunks > 2) add("3a 3b", "first, second stage of the device");
  return line;
}

std::string scale_line(const Scale& scale, const Canvas& canvas) {
  const Duration column(static_cast<std::int64_t>(std::llround(scale.per_column_ns)));
  const std::string all = print_duration(scale.end - scale.origin);
  std::string line = fmt::format("1 column = {}; ", print_duration(column));
  const Duration shown(static_cast<std::int64_t>(scale.per_column_ns * scale.columns));
  line += scale.whole() ? fmt::format("the whole run, {}", all)
                        : fmt::format("the first {} of {}", print_duration(shown), all);
  if (canvas.hidden() > 0) line += fmt::format("; {} too short to draw", canvas.hidden());
  return line;
}

}  // namespace

std::string picture(const Program& program, const Timeline& timeline,
                    const PictureOptions& options) {
  const std::vector<Box> boxes = boxes_of(program, timeline);
  const std::optional<Lengths> lengths = measure(boxes);
  if (!lengths) return "nothing to draw: no computation that takes time\n";
  const std::size_t devices = program.placement().devices;
  std::size_t chunks = 1;  // on any device
  for (const DeviceId device : all_ids<DeviceId>(devices))
    chunks = std::max(chunks, program.placement().replicas_on(device).size());
  const int label = digits(static_cast<std::int64_t>(devices) - 1);
  const std::size_t margin = 6 + static_cast<std::size_t>(label);
  const Scale scale = choose_scale(boxes, *lengths, chunks,
                                   std::max(16, options.columns - static_cast<int>(margin)));
  Canvas canvas(devices, chunks, scale);
  canvas.draw(boxes);

  std::string text = axis(scale, margin) + "\n";
  for (std::size_t device = 0; device < devices; ++device) {
    text += fmt::format("dev {:>{}} |{}\n", device, label,
                        print_row(canvas.rows()[device], options.color));
  }
  if (options.legend) {
    text += "\n" + legend(boxes, canvas, chunks, options.color) + "\n";
    text += scale_line(scale, canvas) + "\n";
  }
  return text;
}

}  // namespace tandem
