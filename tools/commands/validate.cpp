// tandem validate: published figures against what commands of this program predict.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/progress.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "tools/cli/child_process.h"
#include "tools/cli/for_each.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"
#include "tools/validation/scatter_page.h"
#include "tools/validation/validate_set.h"

namespace tandem::tools {

namespace {

/// This program, again.
Json json_of_tandem(const std::vector<std::string>& words) {
  ChildSetup setup{.command = {"/proc/self/exe"}, .output = ChildSetup::Output::taken};
  setup.command.insert(setup.command.end(), words.begin(), words.end());
  setup.command.emplace_back("--json");
  for (char** entry = ::environ; *entry != nullptr; ++entry) setup.environment.emplace_back(*entry);
  ChildProcess child(setup);
  std::string text;
  std::optional<int> status;
  while (!status) {
    constexpr int kMilliseconds = 50;
    keep_going();
    pollfd waiting[] = {{child.output(), POLLIN, 0}, {child.end(), POLLIN, 0}};
    ::poll(waiting, 2, kMilliseconds);
    child.take_output(text);
    status = child.status();
  }
  child.take_output(text);
  Json json = Json::parse(text, nullptr, false);
  if (*status != 0 || json.is_discarded())
    throw InputError(fmt::format("tandem {} failed:\n{}", fmt::join(words, " "), text));
  return json;
}

std::vector<const PublishedSet*> sets_asked(const Options& options) {
  std::vector<const PublishedSet*> asked;
  for (const PublishedSet& set : published_sets()) {
    if (options.words().empty()) asked.push_back(&set);
  }
  for (const std::string& name : options.words()) {
    const auto found = std::ranges::find(published_sets(), name, &PublishedSet::name);
    if (found == published_sets().end()) {
      std::vector<std::string_view> names;
      for (const PublishedSet& set : published_sets()) names.push_back(set.name);
      throw UsageError(fmt::format("there is no set \"{}\" of published figures: expected {}", name,
                                   fmt::join(names, ", ")));
    }
    asked.push_back(&*found);
  }
  return asked;
}

Json as_json(const ComparedSet& of) {
  Json rows = Json::array();
  for (const ComparedRow& row : of.rows)
    rows.push_back(
        {{"name", row.name}, {"published", row.published}, {"predicted", row.predicted}});
  const bool compared = of.not_compared.empty();
  return {{"name", of.set->name},
          {"title", of.set->title},
          {"source", of.set->source},
          {"quantity", of.set->quantity},
          {"constants", of.set->constants},
          {"held_out", of.set->held_out},
          {"not_compared", compared ? Json() : Json(of.not_compared)},
          {"mean_error", compared ? Json(of.errors.mean) : Json()},
          {"median_error", compared ? Json(of.errors.median) : Json()},
          {"worst_error", compared ? Json(of.errors.worst) : Json()},
          {"rank_correlation", compared ? Json(of.rank_correlation) : Json()},
          {"worse", of.worse},
          {"better", of.better},
          {"rows", std::move(rows)}};
}

void print_table(const std::vector<ComparedSet>& sets) {
  fmt::print("{:<24}{:>5}{:>9}{:>9}{:>9}{:>8}  {}\n", "error of predictions, %", "rows", "median",
             "mean", "worst", "rank", "what");
  for (const ComparedSet& of : sets) {
    if (!of.not_compared.empty()) continue;
    const PredictionErrors& errors = of.errors;
    fmt::print("{:<24}{:>5}{:>9.2f}{:>9.2f}{:>+9.2f}{:>8.3f}  {}\n", of.set->name, errors.rows,
               100 * errors.median, 100 * errors.mean, 100 * errors.worst, of.rank_correlation,
               of.set->title);
  }
  fmt::print(
      "\nrank: Spearman's correlation. By which constants, and what they were not fitted to:\n");
  for (const ComparedSet& of : sets)
    fmt::print("{}: {}; held out: {}\n", of.set->name, of.set->constants, of.set->held_out);
  for (const ComparedSet& of : sets) {
    if (!of.not_compared.empty())
      fmt::print("NOT COMPARED: {}: {}\n", of.set->name, of.not_compared);
  }
}

}  // namespace

Options options_of_validate() {
  Options options("validate", "[NAME...] [--report FILE]",
                  "Predicts published figures again, all sets or those named, and says how far off "
                  "it is; exit 6 where a prediction is worse than the one on record.");
  std::vector<std::string> names;
  for (const PublishedSet& set : published_sets()) names.push_back(set.name);
  options.words("NAME", 0, static_cast<int>(names.size())).first_word(names);
  options.output("report", "FILE", "write a page (HTML) with a picture of each set");
  return options;
}

int run_validate(const Options& options) {
  const std::vector<const PublishedSet*> asked = sets_asked(options);
  if (options.has("report")) check_can_write(options.text("report"));
  const char* data = std::getenv("TANDEM_DATA");
  std::vector<ComparedSet> sets;
  const Activity progress("predicting published figures");
  const auto threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  work_in_order(
      threads, asked.size(),
      [&](std::size_t i) {
        return compare_set(*asked[i], json_of_tandem, data == nullptr ? "" : data);
      },
      [&](ComparedSet compared) {
        sets.push_back(std::move(compared));
        progress.step();
      });
  keep_going();
  if (options.has("report")) write_file(options.text("report"), scatter_page(sets));
  std::vector<std::string> worse, better;
  for (const ComparedSet& of : sets) {
    worse.insert(worse.end(), of.worse.begin(), of.worse.end());
    better.insert(better.end(), of.better.begin(), of.better.end());
  }
  if (options.has("json")) {
    print_result("validate", {{"sets", options.words()}}, Json::object(),
                 {{"sets", array_of(sets, [](const ComparedSet& of) { return as_json(of); })},
                  {"worse", worse.size()}});
  } else {
    print_table(sets);
    for (const std::string& line : better) fmt::print("BETTER than recorded: {}\n", line);
    for (const std::string& line : worse) fmt::print("WORSE than recorded: {}\n", line);
  }
  return static_cast<int>(worse.empty() ? ExitCode::done : ExitCode::differences);
}

}  // namespace tandem::tools
