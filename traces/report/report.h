#pragma once
// write_report(): a run for people, as one page that needs nothing else (.html), or as a picture
// (.svg). What is on them: traces/report/report.md.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/report/chart.h"

namespace tandem {

/// A headline figure: what people read, and the number by which a page compares frames.
struct ReportFact {
  std::string name, text;
  double number = 0.0;
  bool share = false;  // of a whole: it changes by percentage points, others in percent
};

struct ReportTable {
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};  // a cell a column (checked)
  std::string note{};                               // beneath it; may be empty
};

/// One run of what is asked about.
struct ReportFrame {
  std::string label;  // "x 2": what is changed
  Chart chart;
  std::vector<ReportFact> facts = {};  // the same names in all frames
  ReportTable table = {};
};

/// One thing changed, all else as asked for: positions of a slider, or of a list.
struct ReportSlider {
  std::string name;                      // "time of transfers and sums"
  std::string asked;                     // what stands for frame 0: "as asked for", "x 1"
  bool list = false;                     // the positions have no order
  std::vector<std::size_t> frames = {};  // of Report::frames, frame 0 among them (checked)
};

struct Report {
  std::string title, summary, command;
  std::string tool = "tandem";
  std::vector<std::string> assumptions = {};
  std::vector<ReportFrame> frames = {};  // the first is what was asked for
  std::vector<ReportSlider> variations = {};
  std::string variations_note{};  // what is missing there, and why; may be empty
};

/// The page. All text of the report is data in it, none is markup.
std::string report_page(const Report& report);

/// The first frame's timeline and what devices hold, to scale. Boxes too narrow to see are drawn as
/// one. Where that is over a megabyte, links, details and at last devices are left out until it is
/// not, and the picture says so.
std::string report_picture(const Report& report);

/// By the name's ending, .html or .svg (checked). The file appears whole or not at all. Throws
/// DeviceError when it can't be written.
void write_report(const std::filesystem::path& path, const Report& report);

}  // namespace tandem
