#pragma once
// Golden files of messages, each a session at a terminal:
//
// clang-format off
//   # A stage leaves a layer out                 a title begins a folder with tests/tools/files
//   file more.txt                                a file; its lines are indented by two spaces
//     one line
//   copy tests/fuzz/corpus/nccl_xml/cut cut.xml  a file of the sources
//   edit plan.json: [3, 6]] => [4, 6]]           the first such part of a file replaced
//   mask [0-9.]+ GiB of memory                   what differs by machine or run is printed as ***
//   $ tandem check plan.json > checked.txt       quotes and > as in a shell; /dev/null drops stdout
//   plan.json:12:20: error: ...                  stderr, then stdout behind a line [stdout]
//   [exit 3]
//
// Of a command's help the options that only some schedules take are left out: each is a row
// (core/schedule/options.h) with the names of those schedules, and tools/help_test.cpp holds help
// to the rows. So a new schedule, or a new option of one, changes no golden file.
// clang-format on

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

struct Step {
  enum class Kind { text, title, file, copy, edit, mask, command };

  Kind kind = Kind::text;
  int line = 0;                    // where it begins, from 1
  std::string source;              // as it stands there, without what a command prints
  std::string name;                // of the file; of a command the one that takes stdout
  std::string part, content;       // edit: what is replaced by what; copy, mask: the part
  std::vector<std::string> words;  // of a command, without "tandem"
  std::string printed;             // by a command, with [stdout] and [exit N]; empty: not yet run
};

/// `help` without the options that only some schedules take; what is no help of a command that
/// takes them stays as it is.
std::string without_options_of_schedules(const std::string& help);

/// The steps of a golden file. Throws std::invalid_argument, "NAME:LINE: ...", for a line that is
/// none, and for a command without its output unless `unfinished` are taken.
std::vector<Step> parse_transcript(std::string_view name, std::string_view text,
                                   bool unfinished = false);

struct Replayed {
  std::string text;         // of the golden file as the commands print now
  std::string differences;  // for people: each command that prints something else, as a diff
};

/// Runs the commands, each title's in a folder of its own.
Replayed replay_transcript(std::string_view name, const std::vector<Step>& steps);

}  // namespace tandem::testing
