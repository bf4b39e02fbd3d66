// The house rules that no compiler checks: who may include whom, sizes, banned words, a README a
// folder. A rule takes one file's path and text, so each is first shown to fire on a planted fault
// (a negative control) and then run over the whole tree.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <ios>
#include <map>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/source_folder.h"

namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string_view>;

constexpr std::size_t kColumns = 100;
constexpr std::ptrdiff_t kFunctionLines = 70;
constexpr std::ptrdiff_t kFileLines = 450;

struct Source {
  std::string path;  // From the root: "core/schedule/op.h".
  std::string text;
  std::string code;  // The text with comments and literals blanked; same length, same lines.
};

struct Finding {
  std::string path;
  std::ptrdiff_t line;
  std::string message;
};
using Findings = std::vector<Finding>;

// ---- Reading C++ ----

// Where the comment or literal that starts at `at` ends; `at` itself where none starts.
std::size_t end_of_opaque(std::string_view text, std::size_t at) {
  const auto after = [text](std::string_view mark, std::size_t from) {
    const std::size_t found = text.find(mark, from);
    return found == std::string_view::npos ? text.size() : found + mark.size();
  };
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) {
    return std::min(text.find('\n', at), text.size());
  }
  if (rest.starts_with("/*")) {
    return after("*/", at + 2);
  }
  if (rest.starts_with("R\"")) {
    const std::size_t open = std::min(text.find('(', at), text.size());
    return after(fmt::format("){}\"", text.substr(at + 2, open - at - 2)), open);
  }
  // A quote after a digit or letter separates digits: 1'000.
  const bool separator = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
  if (rest.front() != '"' && (rest.front() != '\'' || separator)) {
    return at;
  }
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != rest.front() && text[end] != '\n') {
    end += text[end] == '\\' ? 2 : 1;
  }
  return std::min(end + 1, text.size());
}

// Include lines stay as they are: what they name is code, though it looks like a string.
std::string code_only(std::string_view text) {
  std::string code(text);
  std::size_t at = 0;
  while (at < text.size()) {
    const bool line_start = at == 0 || text[at - 1] == '\n';
    if (line_start && text.substr(at).starts_with("#include")) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    const std::size_t end = end_of_opaque(text, at);
    for (std::size_t i = at; i < end; ++i) {
      code[i] = text[i] == '\n' ? '\n' : ' ';
    }
    at = std::max(end, at + 1);
  }
  return code;
}

Source make_source(std::string path, std::string text) {
  std::string code = code_only(text);
  return {std::move(path), std::move(text), std::move(code)};
}

Strings lines_of(std::string_view text) {
  Strings lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::ptrdiff_t line_of(std::string_view text, std::size_t at) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
}

bool contains(const Strings& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool starts_with_any(std::string_view text, const Strings& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [text](std::string_view prefix) { return text.starts_with(prefix); });
}

std::string folder_of(std::string_view path) { return std::string(path.substr(0, path.find('/'))); }

bool is_test(const Source& source) { return source.path.starts_with("tests/"); }

// ---- Rules ----

struct Include {
  std::ptrdiff_t line;
  bool angled;
  std::string name;
};

std::vector<Include> includes_of(const Source& source) {
  static const std::regex pattern(R"(^#\s*include\s*([<"])([^>"]*))");
  std::vector<Include> includes;
  std::ptrdiff_t line = 0;
  for (const std::string_view text : lines_of(source.code)) {
    ++line;
    std::match_results<std::string_view::const_iterator> match;
    if (std::regex_search(text.begin(), text.end(), match, pattern)) {
      includes.push_back({line, match.str(1) == "<", match.str(2)});
    }
  }
  return includes;
}

const std::map<std::string, Strings>& may_include() {
  static const Strings anything = {"core",   "simulator", "executor", "planner",
                                   "traces", "tools",     "tests"};
  static const std::map<std::string, Strings> table = {
      {"core", {"core"}},
      {"simulator", {"core", "simulator"}},
      {"executor", {"core", "executor"}},
      {"traces", {"core", "traces"}},
      {"planner", {"core", "simulator", "planner"}},
      {"tools", anything},
      {"tests", anything},
  };
  return table;
}

/// core/schedules/search of core/schedules/search/order.h; of a file that lies in no room of its
/// library, the file: simulator/simulate of simulator/simulate.h.
std::string room_of(std::string_view path) {
  const std::string_view folder = path.substr(0, std::min(path.rfind('/'), path.size()));
  if (folder.find('/') != std::string_view::npos) return std::string(folder);
  return std::string(path.substr(0, std::min(path.rfind('.'), path.size())));
}

/// The rooms, from the ground up: of its own library each may include those named beside it.
const std::map<std::string, Strings> kRooms = {
    {"core/base", {}},
    {"core/text", {"core/base"}},
    {"core/schedule", {"core/base"}},
    {"core/schedules", {"core/base", "core/schedule"}},
    {"core/schedules/search", {"core/base", "core/schedule", "core/schedules"}},
    {"core/notation", {"core/base", "core/text", "core/schedule", "core/schedules"}},
    {"core/program", {"core/base", "core/text", "core/schedule"}},
    {"core/lower", {"core/base", "core/schedule", "core/notation", "core/program"}},
    {"core/model", {"core/base", "core/schedule"}},
    {"core/memory", {"core/base", "core/schedule", "core/program", "core/model"}},
    {"core/verify", {"core/base", "core/program", "core/memory"}},  // what it proves is not lower's
    {"core/files", {"core/base", "core/text", "core/schedule", "core/model", "core/memory"}},
    {"core/export",
     {"core/base", "core/text", "core/schedule", "core/model", "core/files", "core/import",
      "core/memory", "core/notation"}},
    {"core/import",
     {"core/base", "core/text", "core/schedule", "core/model", "core/files", "core/notation"}},

    {"simulator/engine", {}},
    {"simulator/compiled", {"simulator/engine"}},
    {"simulator/simulation_result", {}},
    {"simulator/run_figures",
     {"simulator/engine", "simulator/compiled", "simulator/simulation_result"}},
    {"simulator/simulate",
     {"simulator/engine", "simulator/compiled", "simulator/run_figures",
      "simulator/simulation_result"}},
    {"simulator/contention", {"simulator/engine", "simulator/run_figures", "simulator/simulate"}},
    {"simulator/cost",
     {"simulator/compiled", "simulator/contention", "simulator/simulate", "simulator/run_figures"}},
    {"simulator/scenario", {"simulator/contention", "simulator/cost", "simulator/simulate"}},
    {"simulator/analysis",
     {"simulator/engine", "simulator/compiled", "simulator/cost", "simulator/simulate",
      "simulator/scenario"}},
    {"simulator/replay", {"simulator/engine"}},

    {"executor/backend", {}},
    {"executor/layers", {"executor/backend"}},
    {"executor/data/tokenizer", {}},
    {"executor/data", {"executor/data/tokenizer", "executor/layers"}},
    {"executor/cpu", {"executor/backend"}},
    {"executor/stage", {"executor/backend", "executor/layers", "executor/data", "executor/cpu"}},
    {"executor/run", {"executor/backend", "executor/stage"}},
    {"executor/ranks", {"executor/backend", "executor/run", "executor/stage"}},
    {"executor/checkpoint",
     {"executor/backend", "executor/cpu", "executor/layers", "executor/stage"}},
    {"executor/copies",
     {"executor/checkpoint", "executor/ranks", "executor/run", "executor/stage"}},
    {"executor/profile",
     {"executor/backend", "executor/cpu", "executor/data", "executor/run", "executor/stage"}},
    {"executor/cuda/runtime", {"executor/backend"}},
    {"executor/cuda/kernels", {"executor/backend", "executor/cpu", "executor/cuda/runtime"}},
    {"executor/cuda",
     {"executor/backend", "executor/cpu", "executor/cuda/kernels", "executor/cuda/runtime",
      "executor/profile", "executor/run", "executor/stage"}},
    {"executor/train", {"executor/cpu", "executor/run"}},
    {"executor/forwards",
     {"executor/checkpoint", "executor/data", "executor/run", "executor/train"}},
    {"executor/backends",
     {"executor/cuda", "executor/profile", "executor/ranks", "executor/run", "executor/train"}},

    {"planner/search", {}},
    {"planner/cluster", {"planner/search"}},
    {"planner/study", {"planner/search", "planner/cluster"}},
    {"planner/published", {"planner/search", "planner/cluster"}},

    {"traces/svg", {}},
    {"traces/picture", {}},
    {"traces/curves", {}},
    {"traces/chrome", {"traces/curves"}},
    {"traces/recorded", {"traces/chrome"}},
    {"traces/report", {"traces/chrome", "traces/curves", "traces/svg"}},
    {"traces/compare", {"traces/chrome"}},

    {"tools/cli", {}},
    {"tools/print", {"tools/cli"}},
    {"tools/sweep", {"tools/cli", "tools/print"}},
    {"tools/validation", {"tools/cli", "tools/print"}},
    {"tools/options", {"tools/cli", "tools/sweep"}},
    {"tools/commands",
     {"tools/cli", "tools/options", "tools/print", "tools/sweep", "tools/validation"}},
    {"tools/main", {"tools/cli", "tools/commands"}},
    {"tools/benchmarks", {"tools/cli"}},
    {"tools/cmake", {}},
};

Findings rooms(const Source& source) {
  static const Strings parsers{"tools/cli", "tools/options", "tools/commands", "tools/main"};
  Findings found;
  const std::string library = folder_of(source.path);
  if (is_test(source)) return found;
  const std::string room = room_of(source.path);
  const auto row = kRooms.find(room);
  if (row == kRooms.end())
    return {{source.path, 1, fmt::format("no room of {} (kRooms)", library)}};
  for (const Include& include : includes_of(source)) {
    const std::string target = room_of(include.name);
    const bool of_library = !include.angled && folder_of(include.name) == library;
    if (of_library && target != room && !contains(row->second, target))
      found.push_back({source.path, include.line, room + " must not include " + include.name});
    if (include.name == "tools/cli/options.h" && !contains(parsers, room))
      found.push_back({source.path, include.line, room + " takes requests, not options"});
  }
  return found;
}

/// Whoever is named before leads back to none: what a room includes does not include it.
std::vector<std::string> rooms_in_a_circle(const std::map<std::string, Strings>& table) {
  std::vector<std::string> circles;
  std::map<std::string_view, int> depth;  // 0: not seen yet; −1: on the way down
  const auto visit = [&](const auto& self, std::string_view room) -> void {
    if (depth[room] != 0) {
      if (depth[room] < 0) circles.emplace_back(room);
      return;
    }
    depth[room] = -1;
    for (const std::string_view below : table.at(std::string(room))) self(self, below);
    depth[room] = 1;
  };
  for (const auto& [room, below] : table) visit(visit, room);
  return circles;
}

Findings layers(const Source& source) {
  Findings found;
  const std::string folder = folder_of(source.path);
  for (const Include& include : includes_of(source)) {
    const auto report = [&](const std::string& message) {
      found.push_back({source.path, include.line, message});
    };
    const std::string target = folder_of(include.name);
    const bool ours = may_include().contains(target) && target != include.name;
    if (include.name == "tandem_build_info.h") {
      if (folder != "tools") {
        report("tandem_build_info.h belongs to tools/ alone");
      }
    } else if (include.angled) {
      if (ours) {
        report(fmt::format("<{}>: headers of ours are named in quotes", include.name));
      }
    } else if (!ours) {
      report(fmt::format("\"{}\": headers are named from the root, packages in <>", include.name));
    } else if (!contains(may_include().at(folder), target)) {
      report(fmt::format("{}/ must not include {}", folder, include.name));
    }
  }
  return found;
}

struct PackageRule {
  std::string_view package;
  Strings headers;  // Prefixes of what is included.
  Strings places;   // Prefixes of paths that may.
};

Findings packages(const Source& source) {
  static const std::vector<PackageRule> rules = {
      {"Boost.Graph",
       {"boost/graph/", "boost/property_map/"},
       {"core/program/graph.cpp", "planner/search/partition.cpp", "tests/"}},
      {"Boost.Program_options", {"boost/program_options"}, {"tools/cli/options.cpp"}},
      {"nlohmann/json",
       {"nlohmann/"},
       {"core/text/", "core/export/", "core/files/", "core/import/", "executor/checkpoint/",
        "traces/", "tools/", "tests/"}},
      {"CUDA and NCCL",
       {"cuda", "nccl", "cublas", "cupti", "nvml", "nvtx"},
       {"executor/cuda/", "tests/executor/cuda"}},
      {"GoogleTest", {"gtest/", "gmock/"}, {"tests/"}},
  };
  Findings found;
  for (const Include& include : includes_of(source)) {
    for (const PackageRule& rule : rules) {
      if (include.angled && starts_with_any(include.name, rule.headers) &&
          !starts_with_any(source.path, rule.places)) {
        found.push_back({source.path, include.line,
                         fmt::format("<{}>: {} is included only in {}", include.name, rule.package,
                                     fmt::join(rule.places, ", "))});
      }
    }
  }
  return found;
}

struct BannedWord {
  std::regex pattern;
  std::string_view reason;
};

void find_banned(const Source& source, std::string_view text, const std::vector<BannedWord>& words,
                 Findings& found) {
  std::ptrdiff_t line = 0;
  for (const std::string_view one : lines_of(text)) {
    ++line;
    for (const BannedWord& word : words) {
      if (std::regex_search(one.begin(), one.end(), word.pattern)) {
        found.push_back({source.path, line, std::string(word.reason)});
      }
    }
  }
}

/// Who may name an op kind: where its meaning is, and who writes or reads schedules of certain
/// ones. Everything else asks its row (core/schedule/op_kind.h), so that a new kind costs no
/// further file.
const std::map<std::string_view, std::string_view>& names_op_kinds() {
  static const std::map<std::string_view, std::string_view> places = {
      {"core/schedule/op_kind.h", "the rows"},
      {"core/schedule/passes.", "the passes that insert ops"},
      {"core/schedules/", "schedules are made of forwards, backwards and updates"},
      {"core/notation/pytorch_csv.cpp", "what the format leaves out is a backward's other half"},
      {"core/lower/", "the meaning: what waits for what"},
      {"core/verify/", "the meaning, once more"},
      {"core/memory/", "the meaning: what holds which slot"},
      {"executor/run/device_machine.h", "the meaning: the device's machine"},
      {"simulator/replay/", "recordings know forwards, halves of backwards, and two transfers"},
      {"traces/recorded/", "likewise, by the recorder's own names"},
      {"tools/benchmarks/simgrid.cpp", "writes a schedule for another simulator"},
      {"tests/", "tests speak of certain kinds"},
  };
  return places;
}

Findings op_kinds(const Source& source) {
  static const std::vector<BannedWord> words = {
      {std::regex(R"(\bOpKind::\w)"), "an op kind is named: ask its row, or see names_op_kinds()"}};
  Findings found;
  const auto may = [&](const auto& place) { return source.path.starts_with(place.first); };
  if (std::ranges::none_of(names_op_kinds(), may)) find_banned(source, source.code, words, found);
  return found;
}

/// A word of the registry that a file may have between quotes, for it means something else there.
struct OtherMeaning {
  std::string_view place;  // how the path begins
  std::string_view word;   // empty: any
  std::string_view reason;
};

/// Who may name a schedule: everything else asks its row (ScheduleTraits), so that a new one costs
/// no further file.
const std::vector<OtherMeaning>& names_schedules() {
  static const std::vector<OtherMeaning> meanings = {
      {"core/schedules/", "", "the rows"},
      {"core/export/megatron.cpp", "", "the schedules of Megatron-LM"},
      {"core/import/megatron_arguments.cpp", "", "the schedules of Megatron-LM"},
      {"core/import/importers.cpp", "pipedream", "a format"},
      {"planner/published/", "", "planners, and what their plans are simulated as"},
      {"planner/study/timed_search.cpp", "search", "what takes time"},
      {"tools/sweep/sweep_row.cpp", "search", "a key of results"},
      {"tools/print/simulation_report.cpp", "search", "a key of results"},
      {"tools/commands/schedule.cpp", "search", "a key of results"},
      {"tools/commands/plan_graph.cpp", "pipedream", "a planner"},
      {"tools/benchmarks/", "", "cases that are measured"},
  };
  return meanings;
}

/// Who may name an option that only some schedules take, by its flag or its key: everything else
/// walks the rows, or asks for the member of the request that it means (option_of()).
const std::vector<OtherMeaning>& names_options() {
  static const std::vector<OtherMeaning> meanings = {
      {"core/schedule/options.cpp", "", "the rows"},
      {"core/schedules/", "", "which schedule takes which"},
      {"core/notation/", "replicas", "which stage each replica is of"},
      {"core/notation/", "slices", "how many make a microbatch"},
      {"core/import/megatron_arguments.cpp", "chunks", "an argument of Megatron-LM in our words"},
      {"core/import/megatron_arguments.cpp", "group", "the same"},
      {"core/files/cluster_file.cpp", "group", "of devices"},
      {"core/files/profile_file.cpp", "slices", "which layers were measured on"},
      {"executor/checkpoint/checkpoint_info.cpp", "seed", "of a run"},
      {"traces/recorded/recorded_job.cpp", "replicas", "of a recorded job"},
      {"traces/report/report_page.cpp", "chunks", "boxes of a chart"},
      {"tools/", "seed", "of anything drawn"},
      {"tools/sweep/sweep_row.cpp", "chunks", "a plan's shape"},
      {"tools/commands/plan", "", "what the planner searches"},
      {"tools/commands/profile.cpp", "slices", "which layers are measured on"},
      {"tools/commands/schedule.cpp", "group", "a key of an op"},
      {"tools/commands/schedule.cpp", "slices", "a key of results"},
      {"tools/commands/trace.cpp", "slices", "of a trace"},
      {"tools/print/replay_report.cpp", "replicas", "of a recording"},
      {"tools/options/cluster_question.cpp", "", "what the planner searches"},
      {"tools/print/simulation_report.cpp", "orders", "a key of results"},
  };
  return meanings;
}

/// The text between quotes in which the pattern's first group stands, of all these files.
std::set<std::string, std::less<>> words_in(const std::vector<Source>& tree, std::string_view place,
                                            const std::regex& pattern) {
  std::set<std::string, std::less<>> words;
  for (const Source& source : tree) {
    if (!source.path.starts_with(place)) continue;
    for (std::sregex_iterator at(source.text.begin(), source.text.end(), pattern), end; at != end;
         ++at)
      words.insert((*at)[1]);
  }
  return words;
}

// Of the literals of a file those that are one of `words`, a flag or not.
Findings find_words(const Source& source, const std::set<std::string, std::less<>>& words,
                    const std::vector<OtherMeaning>& meanings, std::string_view advice) {
  Findings found;
  if (is_test(source)) return found;
  for (std::size_t at = 0; at < source.text.size();) {
    const std::size_t end = std::max(end_of_opaque(source.text, at), at + 1);
    std::string_view word = std::string_view(source.text).substr(at, end - at);
    const std::size_t start = std::exchange(at, end);
    if (word.size() < 3 || word.front() != '"') continue;
    word = word.substr(1, word.size() - 2);
    if (word.starts_with("--")) word.remove_prefix(2);
    const bool allowed = std::ranges::any_of(meanings, [&](const OtherMeaning& meaning) {
      return source.path.starts_with(meaning.place) &&
             (meaning.word.empty() || meaning.word == word);
    });
    if (words.contains(word) && !allowed)
      found.push_back({source.path, line_of(source.text, start),
                       fmt::format("\"{}\" is named: {}", word, advice)});
  }
  return found;
}

std::vector<Source> read_tree();  // below

const std::set<std::string, std::less<>>& schedule_words() {
  static const std::set<std::string, std::less<>> words =
      words_in(read_tree(), "core/schedules/", std::regex(R"re(\{\{"([^"]+)",)re"));
  return words;
}

/// Flags and keys of rows without `of_all`: a row is three groups in braces.
const std::set<std::string, std::less<>>& option_words() {
  static const std::set<std::string, std::less<>> words = [] {
    const std::vector<Source> tree = read_tree();
    const std::regex row(R"re(\{(\{"[^}]*\},\s*\{&[^}]*\},\s*\{[^}]*\})\})re");
    std::set<std::string, std::less<>> all;
    for (const std::string& text : words_in(tree, "core/schedule/options.cpp", row)) {
      if (text.find(".of_all = true") != std::string::npos) continue;
      const std::regex name(R"re((?:^\{|&Request::\w+, )"([^"]+)")re");
      for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
        all.insert((*at)[1]);
    }
    return all;
  }();
  return words;
}

Findings schedule_names(const Source& source) {
  return find_words(source, schedule_words(), names_schedules(),
                    "ask its row, or see names_schedules()");
}

Findings option_names(const Source& source) {
  return find_words(source, option_words(), names_options(), "ask its row, or see names_options()");
}

Findings columns(const Source& source) {
  Findings found;
  std::ptrdiff_t line = 0;
  for (const std::string_view text : lines_of(source.text)) {
    ++line;
    // A character is a byte that does not continue another (UTF-8).
    const auto characters =
        std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; });
    if (static_cast<std::size_t>(characters) > kColumns) {
      found.push_back(
          {source.path, line, fmt::format("{} columns, at most {}", characters, kColumns)});
    }
  }
  return found;
}

Findings file_lines(const Source& source) {
  const auto lines = std::ssize(lines_of(source.text));
  if (is_test(source) || lines <= kFileLines) {
    return {};
  }
  return {{source.path, lines, fmt::format("{} lines, at most {}", lines, kFileLines)}};
}

// Macros need not balance their braces.
std::string without_directives(std::string code) {
  static const std::regex directive(R"((^|\n)[ \t]*#([^\n]*\\\n)*[^\n]*)");
  std::string blanked = code;
  for (std::sregex_iterator i(code.begin(), code.end(), directive), end; i != end; ++i) {
    for (auto at = i->position(); at < i->position() + i->length(); ++at) {
      char& character = blanked[static_cast<std::size_t>(at)];
      character = character == '\n' ? '\n' : ' ';
    }
  }
  return blanked;
}

// Whether a brace after these words opens the body of a function.
bool declares_function(const std::string& words) {
  static const std::regex scope(
      R"(^\s*(template\s*<.*>\s*)?(namespace|class|struct|union|enum)\b)");
  return words.find(')') != std::string::npos && !std::regex_search(words, scope);
}

// Outside of functions a brace opens a body if a declaration with parentheses stands before it: no
// C++ parser, but right for code of this style. Lambdas count with the function that holds them.
Findings function_lines(const Source& source) {
  Findings found;
  const std::string code = without_directives(source.code);
  int depth = 0;          // Of braces, within a function.
  std::size_t start = 0;  // Of the declaration before a brace; then of the function.
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char character = code[at];
    const bool opens = character == '{';
    const bool closes = character == '}';
    if (depth == 0) {
      if (opens && declares_function(code.substr(start, at - start))) {
        depth = 1;
      } else if (opens || closes || character == ';') {
        start = at + 1;
      }
      continue;
    }
    depth += opens ? 1 : closes ? -1 : 0;
    if (depth > 0) {
      continue;
    }
    start = code.find_first_not_of(" \t\n", start);
    const auto lines = line_of(code, at) - line_of(code, start) + 1;
    if (lines > kFunctionLines) {
      found.push_back({source.path, line_of(code, start),
                       fmt::format("a function of {} lines, at most {}", lines, kFunctionLines)});
    }
    start = at + 1;
  }
  return found;
}

Findings pragma_once(const Source& source) {
  if (!source.path.ends_with(".h")) {
    return {};
  }
  const std::size_t first = std::min(source.code.find_first_not_of(" \n"), source.code.size());
  if (std::string_view(source.code).substr(first).starts_with("#pragma once\n")) {
    return {};
  }
  return {{source.path, line_of(source.code, first), "a header begins with #pragma once"}};
}

Findings banned_words(const Source& source) {
  static const std::vector<BannedWord> in_code = {
      {std::regex(R"(\bs?rand\s*\()"), "rand(): randomness comes from a seed"},
      {std::regex(R"(\busing\s+namespace\s+std\b)"), "using namespace std"},
      {std::regex(R"(\bstd::endl\b)"), "std::endl: write \"\\n\", flush where it matters"},
  };
  static const std::vector<BannedWord> conditional = {
      {std::regex(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b)"),
       "conditional compilation: pick the file in CMake instead"},
  };
  static const std::vector<BannedWord> anywhere = {
      {std::regex(R"(\b(TODO|FIXME|XXX)\b)"), "open ends live in issues, not in comments"},
      {std::regex(R"re([!=]= "(cpu|cuda|peer|nccl|threads)")re"),
       "a backend is known by its name: ask its row (executor/backends.h)"},
  };
  Findings found;
  if (!is_test(source)) {
    find_banned(source, source.code, in_code, found);
    // The kernels may ask which processor they are compiled for, and whether it is a GPU.
    if (!starts_with_any(source.path, {"executor/cpu/", "executor/cuda/kernels/block.h",
                                       "executor/backend/in_kernels.h"})) {
      find_banned(source, source.code, conditional, found);
    }
    find_banned(source, source.text, anywhere, found);
  }
  return found;
}

// Core, simulator and planner give the same answer each time: no threads, no clock, no chance.
Findings determinism(const Source& source) {
  static const std::vector<BannedWord> words = {
      {std::regex(R"(^#include <(thread|mutex|shared_mutex|condition_variable|future|atomic)>)"),
       "no threads in core, simulator and planner"},
      {std::regex(R"(^#include <random>)"), "no <random> in core, simulator and planner"},
      {std::regex(R"(\b(steady|system|high_resolution)_clock\b|^#include <ctime>)"),
       "no clock in core, simulator and planner"},
  };
  Findings found;
  // Several threads may write files, and a signal's handler removes what is not whole.
  const bool writes_files =
      starts_with_any(source.path, {"core/text/replacement.", "core/text/temporaries."});
  if (!writes_files && contains({"core", "simulator", "planner"}, folder_of(source.path))) {
    find_banned(source, source.code, words, found);
  }
  return found;
}

// A path of the machine where a file was written means nothing on another.
Findings machine_paths(const Source& source) {
  // In two parts, for this file is looked at as well.
  static const std::vector<BannedWord> words = {
      {std::regex("(^|[^A-Za-z0-9_./])/(wo"
                  "rk|ho"
                  "me)/"),
       "a path of one machine"},
  };
  Findings found;
  find_banned(source, source.text, words, found);
  return found;
}

// Who tries what a page shows leaves nothing in the checkout: in a block, what a command writes
// goes below build/.
Findings written_below_build(const Source& source) {
  static const std::regex kWritten(
      R"((?:--(?:output|trace|report|csv|svg|log|json-lines|resume)[ =]|[^2&]> ?)'?)"
      R"(([A-Za-z$./][^ ')\"]*))");
  Findings found;
  if (!source.path.ends_with(".md")) return found;
  bool in_block = false;
  std::ptrdiff_t number = 0;
  for (const std::string_view text : lines_of(source.text)) {
    ++number;
    const std::string line(text);
    if (line.starts_with("```")) in_block = !in_block;
    if (!in_block) continue;
    for (std::sregex_iterator at(line.begin(), line.end(), kWritten), end; at != end; ++at) {
      const std::string file = (*at)[1];
      if (!file.starts_with("build/") && file != "FILE" && !file.starts_with("/dev/"))
        found.push_back(
            {source.path, number, file + " is written beside the sources: build/" + file});
    }
  }
  return found;
}

// ---- The tree ----

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<Source> read_tree() {
  const fs::path root = tandem::testing::source_folder();
  std::vector<Source> sources;
  const auto add = [&](const fs::directory_entry& entry) {
    if (entry.is_regular_file()) {
      sources.push_back(make_source(entry.path().lexically_relative(root).generic_string(),
                                    read_file(entry.path())));
    }
  };
  for (const auto& entry : fs::directory_iterator(root)) {
    // In a linked worktree .git is a file, and names the place of the repository.
    if (entry.path().filename() != ".git") add(entry);
  }
  for (const auto& [folder, allowed] : may_include()) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      add(entry);
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

bool is_cpp(const Source& source) {
  const std::string extension = fs::path(source.path).extension();
  return contains({".h", ".cpp", ".cu", ".cuh"}, extension);
}

struct Rule {
  std::string name;
  Findings (*check)(const Source&);
  bool cpp_only = true;
};

void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"Rooms", rooms},
      {"Layers", layers},
      {"Packages", packages},
      {"OpKinds", op_kinds},
      {"ScheduleNames", schedule_names},
      {"OptionNames", option_names},
      {"Columns", columns},
      {"FileLines", file_lines},
      {"FunctionLines", function_lines},
      {"PragmaOnce", pragma_once},
      {"BannedWords", banned_words},
      {"Determinism", determinism},
      {"MachinePaths", machine_paths, false},
      {"WrittenBelowBuild", written_below_build, false},
  };
  return all;
}

std::string print(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}:{}: error: {}\n", finding.path, finding.line, finding.message);
  }
  return text;
}

class TidyTree : public testing::TestWithParam<Rule> {};

TEST_P(TidyTree, KeepsTheRule) {
  Findings findings;
  std::size_t looked_at = 0;
  for (const Source& source : read_tree()) {
    if (is_cpp(source) || !GetParam().cpp_only) {
      ++looked_at;
      const Findings more = GetParam().check(source);
      findings.insert(findings.end(), more.begin(), more.end());
    }
  }
  EXPECT_GT(looked_at, 10U) << "no sources in " << tandem::testing::source_folder();
  EXPECT_TRUE(findings.empty()) << print(findings);
}

constexpr auto kName = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Tree, TidyTree, testing::ValuesIn(rules()), kName);

TEST(Tidy, WhoMayNameOpKindsDoes) {
  const std::vector<Source> tree = read_tree();
  for (const auto& [place, reason] : names_op_kinds()) {
    EXPECT_TRUE(std::ranges::any_of(tree,
                                    [&](const Source& source) {
                                      return source.path.starts_with(place) &&
                                             source.code.find("OpKind::") != std::string::npos;
                                    }))
        << place << " (" << reason << ") names none any more";
  }
}

TEST(Tidy, WhoMayNameSchedulesAndOptionsDoes) {
  EXPECT_GT(schedule_words().size(), 30U);
  EXPECT_TRUE(schedule_words().contains("zb-auto"));
  EXPECT_GT(option_words().size(), 12U);
  EXPECT_TRUE(option_words().contains("activation_cap") && option_words().contains("time-limit"));
  EXPECT_FALSE(option_words().contains("width"));
  const std::vector<Source> tree = read_tree();
  const auto stands = [&](const OtherMeaning& meaning, const auto& words) {
    const std::vector<OtherMeaning> none;
    return std::ranges::any_of(tree, [&](const Source& source) {
      if (!source.path.starts_with(meaning.place) || !is_cpp(source)) return false;
      const Findings found = find_words(source, words, none, "");
      return std::ranges::any_of(found, [&](const Finding& one) {
        return meaning.word.empty() || one.message.find(meaning.word) != std::string::npos;
      });
    });
  };
  for (const OtherMeaning& meaning : names_schedules())
    EXPECT_TRUE(stands(meaning, schedule_words())) << meaning.place << " names none any more";
  for (const OtherMeaning& meaning : names_options())
    EXPECT_TRUE(stands(meaning, option_words())) << meaning.place << " names none any more";
}

TEST(Tidy, NoRoomsStandInACircle) {
  EXPECT_EQ(rooms_in_a_circle(kRooms), std::vector<std::string>{});
  EXPECT_EQ(rooms_in_a_circle({{"a", {"b"}}, {"b", {"c"}}, {"c", {"a"}}, {"d", {"a"}}}),
            std::vector<std::string>{"a"});
}

TEST(Tidy, EachFolderHasAReadme) {
  const fs::path root = tandem::testing::source_folder();
  EXPECT_TRUE(fs::exists(root / "README.md")) << "README.md:1: error: missing";
  for (const auto& [folder, allowed] : may_include()) {
    EXPECT_TRUE(fs::exists(root / folder / "README.md"))
        << folder << "/README.md:1: error: missing";
  }
}

// What one header defines under a name no other may, or the linker takes either's code for both.
Findings types_defined_twice(const std::vector<Source>& headers) {
  static const std::regex kNamespace(R"(^namespace ([\w:]*) ?\{$)"), kEnd(R"(^\}  // namespace.*)"),
      kType(R"(^(?:struct|class|enum class|union) (\w+)(?: final)?(?: :.*| \{.*)?$)");
  std::map<std::string, std::string> places;
  Findings findings;
  for (const Source& header : headers) {
    std::vector<std::string> namespaces;
    std::ptrdiff_t line = 0;
    for (const std::string_view one : lines_of(header.text)) {
      ++line;
      const std::string text(one);
      std::smatch match;
      if (std::regex_match(text, match, kNamespace)) {
        namespaces.push_back(match[1]);
      } else if (std::regex_match(text, kEnd) && !namespaces.empty()) {
        namespaces.pop_back();
      } else if (std::regex_match(text, match, kType)) {
        const std::string name = fmt::format("{}::{}", fmt::join(namespaces, "::"), match[1].str());
        const auto [first, added] = places.try_emplace(name, header.path);
        if (!added)
          findings.push_back(
              {header.path, line, fmt::format("{} is defined in {} too", name, first->second)});
      }
    }
  }
  return findings;
}

TEST(Tidy, NoTypeIsDefinedTwice) {
  std::vector<Source> headers = read_tree();
  std::erase_if(headers, [](const Source& source) {
    return !source.path.ends_with(".h") || source.path.starts_with("tests/");
  });
  EXPECT_GT(headers.size(), 100U);
  EXPECT_TRUE(types_defined_twice(headers).empty()) << print(types_defined_twice(headers));
}

TEST(Tidy, ATypeDefinedTwiceIsFound) {
  const auto header = [](const std::string& path, const std::string& space,
                         const std::string& type) {
    return make_source(
        path,
        fmt::format("#pragma once\n\nnamespace {} {{\n\n{}\n\n}}  // namespace\n", space, type));
  };
  const Source first = header("traces/a.h", "tandem", "struct Variation {\n  int a;\n};");
  const Findings found = types_defined_twice(
      {first, header("simulator/b.h", "tandem", "class Variation : public Other {};")});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(print(found),
            "simulator/b.h:5: error: tandem::Variation is defined in traces/a.h too\n");
  EXPECT_TRUE(
      types_defined_twice({first, header("tools/c.h", "tandem::tools", "struct Variation {};"),
                           header("core/d.h", "tandem", "struct Variation;")})
          .empty());
}

// ---- Negative controls: each rule fires on a planted fault, on its line, and lets the good
// neighbour pass ----

struct Control {
  std::string name;
  Findings (*check)(const Source&);
  std::string path;
  std::string text;
  std::vector<std::ptrdiff_t> lines;  // Where it must fire; none: it must not.
};

void PrintTo(const Control& control, std::ostream* out) { *out << control.name; }

class TidyControl : public testing::TestWithParam<Control> {};

TEST_P(TidyControl, FiresWhereItShould) {
  const Control& control = GetParam();
  const Findings findings = control.check(make_source(control.path, control.text));
  std::vector<std::ptrdiff_t> lines;
  for (const Finding& finding : findings) {
    lines.push_back(finding.line);
  }
  EXPECT_EQ(lines, control.lines) << print(findings);
}

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

std::vector<Control> layer_controls() {
  return {
      {"CoreIncludesSimulator",
       layers,
       "core/op.cpp",
       "#include \"core/schedule/op.h\"\n#include \"simulator/simulate.h\"\n",
       {2}},
      {"ExecutorIncludesSimulator", layers, "executor/a.h", "#include \"simulator/a.h\"\n", {1}},
      {"SimulatorIncludesExecutor", layers, "simulator/a.h", "#include \"executor/a.h\"\n", {1}},
      {"PlannerIncludesExecutor", layers, "planner/a.h", "#include \"executor/a.h\"\n", {1}},
      {"PlannerIncludesSimulator", layers, "planner/a.h", "#include \"simulator/a.h\"\n", {}},
      {"TracesIncludeSimulator", layers, "traces/a.h", "#include \"simulator/a.h\"\n", {1}},
      {"ExecutorIncludesTests", layers, "executor/a.h", "#include \"tests/support/a.h\"\n", {1}},
      {"ToolsIncludeAll",
       layers,
       "tools/main.cpp",
       "#include \"planner/a.h\"\n#include \"tandem_build_info.h\"\n",
       {}},
      {"BuildInfoOutsideTools", layers, "core/a.cpp", "#include \"tandem_build_info.h\"\n", {1}},
      {"NotFromTheRoot", layers, "core/op.cpp", "#include \"op.h\"\n", {1}},
      {"OursInAngles", layers, "core/op.cpp", "#include <core/schedule/op.h>\n", {1}},
      {"IncludeInAComment", layers, "core/op.cpp", "/*\n#include \"tools/a.h\"\n*/\n", {}},
      {"GraphInLower",
       packages,
       "core/lower/lower.cpp",
       "#include <boost/graph/properties.hpp>\n",
       {1}},
      {"GraphInGraph",
       packages,
       "core/program/graph.cpp",
       "#include <boost/graph/properties.hpp>\n",
       {}},
      {"OptionsInCore", packages, "core/a.cpp", "#include <boost/program_options.hpp>\n", {1}},
      {"OptionsInAHeader",
       packages,
       "tools/cli/options.h",
       "#include <boost/program_options.hpp>\n",
       {1}},
      {"OptionsInTheirPlace",
       packages,
       "tools/cli/options.cpp",
       "#include <boost/program_options.hpp>\n",
       {}},
      {"JsonInPlanner", packages, "planner/a.cpp", "#include <nlohmann/json.hpp>\n", {1}},
      {"JsonInFiles", packages, "core/files/a.cpp", "#include <nlohmann/json.hpp>\n", {}},
      {"CudaInTheCpuBackend", packages, "executor/cpu/a.cpp", "#include <cuda_runtime.h>\n", {1}},
      {"NcclInItsPlace", packages, "executor/cuda/a.cpp", "#include <nccl.h>\n", {}},
      {"GtestInTools", packages, "tools/main.cpp", "#include <gtest/gtest.h>\n", {1}},
  };
}

std::vector<Control> name_controls() {
  return {
      {"AKindInAPicture", op_kinds, "traces/picture.cpp", "f(OpKind::evict);\n", {1}},
      {"AnyKindInAPicture",
       op_kinds,
       "traces/picture.cpp",
       "OpKind kind{};  // OpKind::load\n",
       {}},
      {"AKindBesideTheMachine", op_kinds, "executor/run/a.h", "f(OpKind::update);\n", {1}},
      {"AScheduleByName",
       schedule_names,
       "planner/a.cpp",
       "// \"1f1b\"\nif (traits.name == \"1f1b\" || f(\"not 1f1b\")) g(R\"(gpipe)\");\n",
       {2}},
      {"AScheduleInItsRow", schedule_names, "core/schedules/a.cpp", "row(\"gpipe\");\n", {}},
      {"AScheduleInATest", schedule_names, "tests/a.cpp", "row(\"gpipe\");\n", {}},
      {"AnotherMeaningOfAName",
       schedule_names,
       "tools/sweep/sweep_row.cpp",
       "f(\"search\");\ng(\"zbv\");\n",
       {2}},
      {"AnOptionByFlag", option_names, "planner/a.cpp", "takes(row, \"waves\");\n", {1}},
      {"AnOptionByKey", option_names, "tools/print/a.cpp", "json[\"activation_cap\"];\n", {1}},
      {"AnOptionAsTyped",
       option_names,
       "tools/a.cpp",
       "say(\"--extra-in-flight\");\nf(\"width\");\n",
       {1}},
      {"AnOptionInItsRow", option_names, "core/schedule/options.cpp", "f(\"waves\");\n", {}},
      {"AKindInLower", op_kinds, "core/lower/waits.cpp", "f(OpKind::evict);\n", {}},
  };
}

std::vector<Control> room_controls() {
  return {
      {"AModelReadsNoFile", rooms, "core/model/a.cpp", "#include \"core/files/read.h\"\n", {1}},
      {"TheProofIsNotLowers", rooms, "core/verify/a.cpp", "#include \"core/lower/lower.h\"\n", {1}},
      {"FilesMakeModels", rooms, "core/files/a.cpp", "#include \"core/model/model.h\"\n", {}},
      {"SearchKnowsSchedules",
       rooms,
       "core/schedules/search/a.cpp",
       "#include \"core/schedules/all.h\"\n",
       {}},
      {"OutsideTheRooms", rooms, "core/a.cpp", "", {1}},
      {"ARoomOfTheirOwn", rooms, "simulator/models/a.cpp", "", {1}},
      {"TheEngineKnowsNoCompiledRun",
       rooms,
       "simulator/engine/a.h",
       "#include \"core/program/run.h\"\n#include \"simulator/compiled/compiled_run.h\"\n",
       {2}},
      {"PricesSimulate", rooms, "simulator/cost/a.cpp", "#include \"simulator/simulate.h\"\n", {}},
      {"SimulateHasNoPrices",
       rooms,
       "simulator/simulate.cpp",
       "#include \"simulator/cost/stage_costs.h\"\n",
       {1}},
      {"StagesRunNothing", rooms, "executor/stage/a.h", "#include \"executor/run/a.h\"\n", {1}},
      {"RunsKnowNoBackend", rooms, "executor/run/a.h", "#include \"executor/cuda/cuda.h\"\n", {1}},
      {"TheTableKnowsBackends",
       rooms,
       "executor/backends.cpp",
       "#include \"executor/cuda/cuda.h\"\n",
       {}},
      {"OneMachineKnowsNoCluster",
       rooms,
       "planner/search/a.h",
       "#include \"planner/cluster/cluster_plan.h\"\n",
       {1}},
      {"StudiesKnowBoth",
       rooms,
       "planner/study/a.h",
       "#include \"planner/cluster/cluster_plan.h\"\n#include \"planner/search/search.h\"\n",
       {}},
      {"TracesKnowNoReport",
       rooms,
       "traces/chrome/a.cpp",
       "#include \"traces/report/chart.h\"\n",
       {1}},
      {"ReportsParseNothing", rooms, "tools/print/a.h", "#include \"tools/cli/options.h\"\n", {1}},
      {"CommandsParse", rooms, "tools/commands/a.cpp", "#include \"tools/cli/options.h\"\n", {}},
      {"TheParserKnowsNoCommand",
       rooms,
       "tools/cli/a.h",
       "#include \"tools/commands/command.h\"\n",
       {1}},
      {"CommandsPrint", rooms, "tools/commands/a.cpp", "#include \"tools/print/report.h\"\n", {}},
  };
}

std::vector<Control> size_controls() {
  const std::string body = repeat("  f();\n", kFunctionLines - 2);
  return {
      {"Columns", columns, "core/a.cpp", "//\n" + std::string(101, 'x') + "\n", {2}},
      {"ColumnsAreCharacters", columns, "core/a.cpp", repeat("ü", 100) + "\n", {}},
      {"FileLines", file_lines, "core/a.cpp", repeat("\n", 451), {451}},
      {"FileLinesOfTests", file_lines, "tests/a.cpp", repeat("\n", 451), {}},
      {"LongFunction",
       function_lines,
       "core/a.cpp",
       "namespace tandem {\n\nvoid g(int a = 3) {\n  f();\n" + body + "}\n}\n",
       {3}},
      {"LongMember",
       function_lines,
       "core/a.h",
       "struct A {\n  A() : b_{1} {}\n  int g() const {\n  f();\n" + body + "}\n};\n",
       {3}},
      {"LongTest", function_lines, "tests/a.cpp", "TEST(A, B) {\n  f();\n" + body + "}\n", {1}},
      {"SeventyLines", function_lines, "core/a.cpp", "void g() {\n" + body + "}\n", {}},
      {"BracesInStrings",
       function_lines,
       "core/a.cpp",
       "void g() {\n  p(\"}\"); p('{'); q(1'0); p(R\"x({)x\");\n  f();\n" + body + "}\n",
       {1}},
      {"LongStruct",
       function_lines,
       "core/a.h",
       "struct A {\n" + repeat("  int a;\n", 90) + "};\n",
       {}},
      {"LongTable",
       function_lines,
       "core/a.cpp",
       "constexpr Row kRows[] = {\n" + repeat("  {1, f(2)},\n", 90) + "};\n",
       {}},
  };
}

std::vector<Control> word_controls() {
  return {
      {"NoPragmaOnce", pragma_once, "core/a.h", "// About.\n#include <array>\n", {2}},
      {"PragmaOnce", pragma_once, "core/a.h", "// About.\n\n#pragma once\n", {}},
      {"Rand", banned_words, "core/a.cpp", "int a = std::rand();\n", {1}},
      {"RandInAString", banned_words, "core/a.cpp", "p(\"rand()\");  // no rand() here\n", {}},
      {"OperandCall", banned_words, "core/a.cpp", "operand(1);\n", {}},
      {"UsingNamespaceStd", banned_words, "core/a.cpp", "\nusing namespace std;\n", {2}},
      {"Endl", banned_words, "core/a.cpp", "out << std::endl;\n", {1}},
      {"Ifdef", banned_words, "core/a.cpp", "#ifdef __linux__\n#endif\n", {1}},
      {"If", banned_words, "core/a.cpp", "  #  if defined(X)\n#endif\n", {1}},
      {"IfInTheKernels",
       banned_words,
       "executor/cpu/a.cpp",
       "#if defined(__x86_64__)\n#endif\n",
       {}},
      {"IfInTheKernelsOfAGpu",
       banned_words,
       "executor/cuda/kernels/a.h",
       "#if defined(__CUDACC__)\n#endif\n",
       {1}},
      {"BackendByName", banned_words, "tools/a.cpp", "if (backend == \"cuda\") f();\n", {1}},
      {"BackendsName", banned_words, "tools/a.cpp", "row(\"cuda\");\n", {}},
      {"OpenEnd", banned_words, "core/a.cpp", "// TODO: more.\n", {1}},
      {"OpenEndInTests", banned_words, "tests/a.cpp", "// TODO: more.\n", {}},
      {"Thread", determinism, "core/a.cpp", "#include <thread>\n", {1}},
      {"ThreadInTheExecutor", determinism, "executor/a.cpp", "#include <thread>\n", {}},
      {"Random", determinism, "planner/a.cpp", "#include <random>\n", {1}},
      {"Clock",
       determinism,
       "simulator/a.cpp",
       "auto t = std::chrono::steady_clock::now();\n",
       {1}},
      {"MachinePath",
       machine_paths,
       "core/README.md",
       "see /wo"
       "rk/facts\n",
       {1}},
      {"WrittenBesideTheSources",
       written_below_build,
       "core/README.md",
       "--csv a.csv\n```\ntandem sweep p.json --csv a.csv\ntandem schedule 1f1b > o.txt\n```\n",
       {3, 4}},
      {"WrittenBelowBuild",
       written_below_build,
       "core/README.md",
       "```\ntandem sweep p.json --csv build/a.csv 2> /dev/null\n```\n",
       {}},
      {"RelativePath",
       machine_paths,
       "core/README.md",
       "see the/wo"
       "rk/facts\n",
       {}},
  };
}

INSTANTIATE_TEST_SUITE_P(Layers, TidyControl, testing::ValuesIn(layer_controls()), kName);
INSTANTIATE_TEST_SUITE_P(Names, TidyControl, testing::ValuesIn(name_controls()), kName);
INSTANTIATE_TEST_SUITE_P(Rooms, TidyControl, testing::ValuesIn(room_controls()), kName);
INSTANTIATE_TEST_SUITE_P(Sizes, TidyControl, testing::ValuesIn(size_controls()), kName);
INSTANTIATE_TEST_SUITE_P(Words, TidyControl, testing::ValuesIn(word_controls()), kName);

}  // namespace
