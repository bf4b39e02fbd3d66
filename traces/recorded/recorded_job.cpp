#include "traces/recorded/recorded_job.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/text/csv.h"

namespace tandem {
namespace {

constexpr std::size_t kMostDiagnostics = 20;
constexpr std::int64_t kMostRanks = 1'000'000'000;

class JobParser {
 public:
  explicit JobParser(const std::string& name) : name_(name) {}

  void line(std::uint32_t number, std::string_view text) {
    if (const std::size_t at = text.find('\0'); at != std::string_view::npos)
      return diagnose(number, "expected text, found a NUL byte", at);
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) return;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return diagnose(number, "expected `key: value`");
    const std::string key(trimmed(text.substr(0, colon)));
    const std::string_view value = trimmed(text.substr(colon + 1));
    const auto known = std::ranges::find(keys_, key, [](const auto& row) { return row.first; });
    if (known == keys_.end()) {
      std::vector<std::string> names;
      for (const auto& [other, place] : keys_) names.emplace_back(other);
      return diagnose(number, fmt::format("unknown key \"{}\"{}", key, did_you_mean(key, names)));
    }
    if (!seen_.insert(key).second) return diagnose(number, fmt::format("{} is given twice", key));
    if (!key.ends_with("_size")) return;
    const auto size = number_in<std::int64_t>(value);
    if (!size || *size < 1 || *size > kMostRanks)
      return diagnose(number, fmt::format("{}: expected an integer from 1 to a billion", key));
    if (known->second != nullptr) *known->second = *size;
    if (key == "world_size") world_size_line_ = number;
  }

  RecordedJob finish() {
    if (seen_.empty() && diagnostics_.empty()) diagnose(1, "expected lines of `key: value`");
    if (diagnostics_.empty()) check_world_size();
    if (!diagnostics_.empty()) throw InputError(std::move(diagnostics_));
    return job_;
  }

 private:
  /// The degrees that are given multiply to the number of all ranks.
  void check_world_size() {
    if (!job_.world_size || !job_.data_parallel || !job_.pipeline_parallel || !job_.tensor_parallel)
      return;
    std::int64_t ranks = job_.data_sequence_parallel.value_or(1);
    for (const std::optional<std::int64_t>& degree :
         {job_.data_parallel, job_.pipeline_parallel, job_.tensor_parallel}) {
      ranks = std::min(ranks, kMostRanks) * *degree;  // each at most a billion
    }
    if (ranks == *job_.world_size) return;
    diagnose(world_size_line_,
             fmt::format("world_size is {}, which is not dp_size · dsp_size · pp_size · tp_size",
                         *job_.world_size));
  }

  void diagnose(std::uint32_t line, std::string message, std::size_t byte = 0) {
    if (diagnostics_.size() >= kMostDiagnostics) return;
    const auto column = static_cast<std::uint32_t>(byte) + 1;
    diagnostics_.push_back(
        {.message = std::move(message), .place = {.file = name_, .line = line, .column = column}});
  }

  const std::string& name_;
  RecordedJob job_;
  std::set<std::string> seen_;
  std::uint32_t world_size_line_ = 1;
  std::vector<Diagnostic> diagnostics_;
  std::array<std::pair<std::string_view, std::optional<std::int64_t>*>, 8> keys_{{
      {"trial_name", nullptr},
      {"run_id", nullptr},
      {"dp_size", &job_.data_parallel},
      {"dsp_size", &job_.data_sequence_parallel},
      {"pp_size", &job_.pipeline_parallel},
      {"tp_size", &job_.tensor_parallel},
      {"vpp_size", &job_.chunks},
      {"world_size", &job_.world_size},
  }};
};

}  // namespace

RecordedJob parse_recorded_job(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  JobParser parser(name);
  const bool cut_off = !text.ends_with('\n');
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    parser.line(number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  RecordedJob job = parser.finish();
  job.cut_off = cut_off;
  return job;
}

void check_job(const RecordedJob& job, const std::string& name, Recording& recording) {
  std::vector<Diagnostic> diagnostics;
  const auto expect = [&](const char* key, const std::optional<std::int64_t>& said,
                          std::int64_t seen, const char* what) {
    if (!said || *said == seen) return;
    diagnostics.push_back(
        {.message = fmt::format("{} is {}, but the timeline has {} {}", key, *said, seen, what),
         .place = {.file = name}});
  };
  expect("pp_size", job.pipeline_parallel, recording.devices, "stages a replica");
  expect("vpp_size", job.chunks, recording.chunks, "model chunks a stage");
  if (!diagnostics.empty()) throw InputError(std::move(diagnostics));
  if (job.cut_off)
    recording.warnings.push_back(name + ": the last line has no end: the file may be cut off");
  const std::int64_t sequence = job.data_sequence_parallel.value_or(1);
  const auto warn = [&](const char* key, const std::optional<std::int64_t>& said, std::int64_t seen,
                        const char* what) {
    if (!said || seen == *said || seen == *said * sequence) return;
    recording.warnings.push_back(
        fmt::format("{}: {} is {}, but the timeline has {} {}", name, key, *said, seen, what));
  };
  warn("dp_size", job.data_parallel, std::ssize(recording.replicas), "replicas");
  if (recording.ranks > 1) {
    warn("tp_size", job.tensor_parallel, static_cast<std::int64_t>(recording.ranks),
         "ranks of a stage");
  }
}

}  // namespace tandem
