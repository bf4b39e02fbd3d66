#pragma once
// Options of a subcommand: Boost.Program_options without its prefix guessing, with messages that
// say what was expected.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>

#include "core/base/error.h"
#include "core/base/units.h"
#include "tools/cli/arguments.h"

namespace tandem::tools {

/// Thrown by Options::parse when --help was asked for; the text is on stdout already.
struct HelpShown {};

/// A file of the command line.
struct NamedFile {
  std::string title;  // "--trace", "PLAN"
  std::string path;
};

class Options {
 public:
  /// `usage`: what follows the command's name, such as "PLAN [options]". `json`: what --json does.
  Options(std::string command, std::string usage, std::string summary,
          const std::string& json = "print one JSON object on stdout");

  /// --help shows the options declared from here on under this heading. Where there is one already,
  /// they stand with its others.
  Options& group(const std::string& heading);
  Options& flag(const std::string& name, const std::string& help);
  Options& value(const std::string& name, const std::string& argument, const std::string& help);
  /// A value that names a file, or what may be one, that is read; one that is written.
  Options& input(const std::string& name, const std::string& argument, const std::string& help);
  Options& output(const std::string& name, const std::string& argument, const std::string& help);
  /// Up to `most` words that are no options, but files that are read; fewer than `least` is an
  /// error that names what is missing.
  Options& words(const std::string& what, int least, int most);
  /// In the contract, but not in this version: using it is a usage error that says so.
  Options& absent(const std::string& name);
  /// Options declared from here on have several values, flags among them: their text is "yes", or
  /// what stands behind an equal sign.
  Options& values_are_lists();

  /// Throws UsageError, also where a file would be both read and replaced, or HelpShown.
  void parse(const Arguments& arguments);

  /// As if the command line gave `path`. REQUIRES: it is an output.
  void set_output(const std::string& name, std::string path);
  /// The same options where the command line of `command` has these values and words instead.
  Options with_values(std::string command, std::map<std::string, std::string> values,
                      std::vector<std::string> words) const;

  const std::string& command() const { return command_; }
  /// The options given, in the order of the command line.
  const std::vector<std::string>& given() const { return given_; }
  /// What --help calls its value; empty: it is a flag.
  const std::string& argument_of(const std::string& name) const;
  /// It names a file that is read.
  bool is_input(const std::string& name) const { return find("--" + name).use == Use::input; }
  /// The files given that are read, and those that are written.
  std::vector<NamedFile> inputs() const, outputs() const;
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  const std::vector<std::string>& words() const { return words_; }
  std::string text(const std::string& name, const std::string& otherwise = {}) const;
  /// Throws UsageError: what the option's text should have been.
  [[noreturn]] void reject(const std::string& name, const std::string& expected) const;
  /// Throws UsageError unless the value is an integer in [least, most].
  std::int64_t integer(const std::string& name, std::int64_t least, std::int64_t most,
                       std::int64_t otherwise) const;
  double number(const std::string& name, double least, double most, double otherwise) const;
  Duration duration(const std::string& name, Duration otherwise = {}) const;
  std::optional<Bytes> bytes(const std::string& name) const;
  /// Bytes a second, above zero.
  std::optional<double> rate(const std::string& name) const;
  /// One of `choices`; the first is the default.
  std::string choice(const std::string& name, const std::vector<std::string>& choices) const;

 private:
  enum class Use { other, input, output };
  struct Known {
    std::string name, argument;  // a flag has no argument
    Use use = Use::other;
    bool flag_with_value = false;
    bool list = false;  // may have several values
    std::string letter = {};                        // ",h": -h stands for it
    std::string shown = {}, help = {}, group = {};  // for people
  };

  /// The arguments with every option's value behind an equal sign: what a value is, is decided
  /// here.
  Arguments joined(const Arguments& arguments);
  Options& declare(const Known& known, const std::string& help);
  const Known& find(const std::string& word) const;
  void store(const Arguments& arguments);
  std::string help() const;
  void check_words() const;

  std::string command_, usage_, summary_, what_;
  int least_ = 0, most_ = 0;
  std::string group_ = "Options";
  std::vector<Known> known_;
  std::vector<std::string> absent_, given_;
  bool values_are_lists_ = false;
  boost::program_options::variables_map values_;
  std::vector<std::string> words_;
};

/// Throws UsageError: a message of this command.
[[noreturn]] void refuse(const Options& options, const std::string& why);

}  // namespace tandem::tools
