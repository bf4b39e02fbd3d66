#pragma once
// Options of a subcommand: rows, which are what is parsed, what --help shows, and what completions
// and manual pages are made from. Boost.Program_options, without its prefix guessing, cuts words
// into options in options.cpp alone.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"
#include "tools/cli/option_value.h"

namespace tandem::tools {

using Arguments = std::vector<std::string>;  // what stands behind a command

/// Thrown by Options::parse when --help was asked for; the text is on stdout already.
struct HelpShown {};

/// A file of the command line.
struct NamedFile {
  std::string title;  // "--trace", "PLAN"
  std::string path;
};

/// How a command ends, for people.
inline constexpr std::array<std::pair<ExitCode, std::string_view>, 8> kExitCodes{
    {{ExitCode::done, "done"},
     {ExitCode::failed, "failed"},
     {ExitCode::usage, "usage"},
     {ExitCode::invalid_input, "invalid input"},
     {ExitCode::infeasible, "infeasible"},
     {ExitCode::environment, "environment"},
     {ExitCode::differences, "differences"},
     {ExitCode::interrupted, "interrupted"}}};

class Options {
 public:
  enum class Use { other, input, output };
  /// An option as it was declared.
  struct Row {
    std::string name, argument = {};                // a flag has no argument
    Use use = Use::other;                           // an input or an output names a file
    bool list = false;                              // may have several values, a flag yes and no
    std::string letter = {};                        // ",h": -h stands for it, -n 4 for a value
    std::string help = {}, shown = {}, group = {};  // for people
  };

  /// `usage`: what follows the command's name, such as "PLAN [options]". `json`: what --json does.
  Options(std::string command, std::string usage, std::string summary,
          const std::string& json = "print one JSON object on stdout");

  /// --help shows the options declared from here on under this heading. Where there is one already,
  /// they stand with its others.
  Options& group(const std::string& heading) {
    group_ = heading;
    return *this;
  }
  Options& declare(Row row);
  Options& flag(const std::string& name, const std::string& help);
  Options& value(const std::string& name, const std::string& argument, const std::string& help);
  /// A value that names a file, or what may be one, that is read; one that is written.
  Options& input(const std::string& name, const std::string& argument, const std::string& help);
  Options& output(const std::string& name, const std::string& argument, const std::string& help);
  /// Up to `most` words that are no options, but files that are read; fewer than `least` is an
  /// error that names what is missing.
  Options& words(const std::string& what, int least, int most) {
    what_ = what;
    least_ = least;
    most_ = most;
    return *this;
  }
  /// What the first of these words may be, with `or_file` a file too: for completions alone.
  Options& first_word(std::vector<std::string> choices, bool or_file = false) {
    first_words_ = std::move(choices);
    first_may_be_file_ = or_file;
    return *this;
  }
  /// The first word begins another command's line: all behind it is a word, too.
  Options& line_follows() {
    line_follows_ = true;
    return *this;
  }
  /// In the contract, but not in this version: using it is a usage error that says so.
  Options& absent(const std::string& name) {
    absent_.push_back(name);
    return *this;
  }
  /// Options declared from here on have several values, flags among them: their text is "yes", or
  /// what stands behind an equal sign.
  void values_are_lists() { values_are_lists_ = true; }

  /// Throws UsageError, also where a file would be both read and replaced, or HelpShown.
  void parse(const Arguments& arguments);

  /// The first word, which is one no longer; empty: there is none.
  std::string take_word();

  /// As it was given, so that a shell takes it.
  std::string command_line() const;
  const std::string& command() const { return command_; }
  /// The command line behind the command's name, as it was given.
  const Arguments& arguments() const { return arguments_; }
  const std::string& usage() const { return usage_; }
  const std::string& summary() const { return summary_; }
  /// All that were declared, in that order; --json and --help are the first two.
  const std::vector<Row>& rows() const { return rows_; }
  /// Their headings, in the order of --help: what every command has comes last.
  std::vector<std::string> groups() const;
  const std::vector<std::string>& first_words() const { return first_words_; }
  bool first_word_may_be_file() const { return first_may_be_file_; }
  /// Whether it takes words that are no options.
  bool takes_words() const { return most_ > 0; }
  /// The options given, in the order of the command line.
  const std::vector<std::string>& given() const { return given_; }
  /// Of an option by its name.
  const Row& row(const std::string& name) const { return find("--" + name); }
  /// The files given that are read, and those that are written.
  std::vector<NamedFile> inputs() const, outputs() const;
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  const std::vector<std::string>& words() const { return words_; }
  std::string text(const std::string& name, const std::string& otherwise = {}) const;
  /// What stands behind an option that is given.
  OptionValue operator[](const std::string& name) const;
  /// The same, or `otherwise` where it is not given. Throw UsageError.
  std::int64_t integer(const std::string& name, std::int64_t least, std::int64_t most,
                       std::int64_t otherwise) const;
  double number(const std::string& name, double least, double most, double otherwise) const;
  /// One of `choices`; the first is the default.
  std::string choice(const std::string& name, const std::vector<std::string>& choices) const;

 private:
  /// The arguments with every option's value behind an equal sign: what a value is, is decided
  /// here.
  Arguments joined(const Arguments& arguments);
  const Row& find(const std::string& word) const;
  /// "--processes" of "-n"; anything else as it is.
  std::string long_form(const std::string& argument) const;
  void store(const Arguments& arguments);
  std::string help() const;
  void check_words() const;

  std::string command_, usage_, summary_, what_;
  int least_ = 0, most_ = 0;
  std::string group_ = "Options";
  std::vector<Row> rows_;
  std::vector<std::string> absent_, given_, first_words_;
  bool values_are_lists_ = false, first_may_be_file_ = true, line_follows_ = false;
  std::map<std::string, std::string> values_;  // of a flag that was given: empty, or yes or no
  std::vector<std::string> words_;
  Arguments arguments_;
};

/// Throws UsageError: a message of this command.
[[noreturn]] void refuse(const Options& options, const std::string& why);
/// `asked`: these, or what was made of them.
template <class Asked, class... Args>
[[noreturn]] void refuse(const Asked& asked, fmt::format_string<Args...> why, Args&&... args) {
  refuse(asked, fmt::format(why, std::forward<Args>(args)...));
}
/// The same where one of these is given: `why` has {} in place of its name.
template <class Asked>
void refuse_given(const Asked& asked, const std::vector<std::string>& names, std::string_view why) {
  for (const std::string& name : names) {
    if (asked.has(name)) refuse(asked, fmt::format(fmt::runtime(why), name));
  }
}

/// Throws UsageError where an output is a file that is read, or another output, by whatever names
/// and links; also of the files that a plan among the inputs names: a command never replaces a file
/// that it reads.
void check_files_differ(const Options& options, const std::vector<NamedFile>& outputs);

}  // namespace tandem::tools
