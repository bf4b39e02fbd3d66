#include "tools/cli/options.h"

#include <algorithm>

#include <boost/program_options.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "core/base/ascii.h"
#include "core/base/check.h"
#include "core/files/read.h"
#include "core/text/files.h"
#include "core/text/output_place.h"
#include "tools/cli/file_cache.h"
#include "tools/cli/split.h"
#include "tools/cli/terminal.h"

namespace tandem::tools {

namespace po = boost::program_options;

Options::Options(std::string command, std::string usage, std::string summary,
                 const std::string& json)
    : command_(std::move(command)), usage_(std::move(usage)), summary_(std::move(summary)) {
  flag("json", json);
  flag("help,h", "show this");
}

Options& Options::flag(const std::string& name, const std::string& help) {
  const std::size_t comma = std::min(name.find(','), name.size());
  return declare({.name = name.substr(0, comma), .letter = name.substr(comma), .help = help});
}

Options& Options::declare(Row row) {
  row.list = values_are_lists_;
  const std::string letter =
      row.letter.empty() ? std::string() : fmt::format("-{}, ", row.letter.substr(1));
  row.shown = row.argument.empty()
                  ? fmt::format("{}--{}{}", letter, row.name, row.list ? "[=yes|no]" : "")
                  : fmt::format("{}--{} {}", letter, row.name, row.argument);
  row.group = group_;
  rows_.push_back(std::move(row));
  return *this;
}

Options& Options::value(const std::string& name, const std::string& argument,
                        const std::string& help) {
  TANDEM_CHECK(!argument.starts_with("FILE"), name);  // it is an input or an output
  return declare({.name = name, .argument = argument, .help = help});
}

Options& Options::input(const std::string& name, const std::string& argument,
                        const std::string& help) {
  return declare({.name = name, .argument = argument, .use = Use::input, .help = help});
}

Options& Options::output(const std::string& name, const std::string& argument,
                         const std::string& help) {
  return declare({.name = name, .argument = argument, .use = Use::output, .help = help});
}

const Options::Row& Options::find(const std::string& word) const {
  std::vector<std::string> names;
  for (const Row& row : rows_) {
    if (word == "--" + row.name) return row;
    names.push_back("--" + row.name);
  }
  if (std::find(absent_.begin(), absent_.end(), word.substr(2)) != absent_.end())
    refuse(*this, "{} is not in this version", word);
  refuse(*this, "unknown option {}{}", word, did_you_mean(word, names));
}

std::string Options::long_form(const std::string& argument) const {
  for (const Row& row : rows_) {
    if (!row.letter.empty() && argument == "-" + row.letter.substr(1)) return "--" + row.name;
  }
  return argument;
}

Arguments Options::joined(const Arguments& arguments) {
  Arguments joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = long_form(arguments[i]);
    const bool line = line_follows_ && !argument.starts_with('-');
    if (line) joined.emplace_back("--");
    if (argument == "--" || line) {
      joined.insert(joined.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                    arguments.end());
      break;
    }
    joined.push_back(argument);
    if (argument.rfind("--", 0) != 0) continue;
    const std::size_t equal = argument.find('=');
    const Row& row = find(argument.substr(0, equal));
    const bool given = equal != std::string::npos;
    given_.push_back(row.name);
    if (row.argument.empty()) {
      if (row.list && !given) joined.back() += "=yes";
      continue;
    }
    const bool follows = i + 1 < arguments.size() && arguments[i + 1].rfind("--", 0) != 0;
    if (!given && !follows)
      refuse(*this, "--{}: expected {}, found nothing", row.name, row.argument);
    if (given ? equal + 1 == argument.size() : arguments[i + 1].empty())
      refuse(*this, "--{}: expected {}, found \"\"", row.name, row.argument);
    if (!given) joined.back() += "=" + arguments[++i];
  }
  return joined;
}

void Options::store(const Arguments& arguments) {
  po::options_description all;
  for (const Row& row : rows_) {
    const std::string name = row.name + row.letter;
    if (row.argument.empty() && !row.list) {
      all.add_options()(name.c_str(), "");
    } else {
      all.add_options()(name.c_str(), po::value<std::string>());
    }
  }
  all.add_options()("words", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("words", -1);
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map found;
  try {
    po::store(
        po::command_line_parser(arguments).options(all).positional(positional).style(style).run(),
        found);
  } catch (const po::error& error) {
    refuse(*this, "{} (tandem {} --help shows the options)", error.what(), command_);
  }
  for (const auto& [name, value] : found) {
    if (name == "words") {
      words_ = value.as<std::vector<std::string>>();
    } else {
      const auto* const text = boost::any_cast<std::string>(&value.value());
      values_.emplace(name, text != nullptr ? *text : std::string());
    }
  }
}

void Options::parse(const Arguments& arguments) {
  arguments_ = arguments;
  store(joined(arguments));
  if (values_.count("help") == 0) {
    check_words();
    return check_files_differ(*this, outputs());
  }
  fmt::print("{}", help());
  throw HelpShown{};
}

std::string Options::take_word() {
  if (words_.empty()) return {};
  std::string word = std::move(words_.front());
  words_.erase(words_.begin());
  return word;
}

std::vector<std::string> Options::groups() const {
  std::vector<std::string> groups;
  for (const Row& row : rows_) {
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end())
      groups.push_back(row.group);
  }
  // What every command has stands behind what is its own.
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  return groups;
}

std::string Options::help() const {
  constexpr std::size_t kWidest = 32;  // of options beside what they mean
  const std::size_t columns = text_columns();
  std::size_t left = 0;
  for (const Row& row : rows_) {
    if (row.shown.size() + 4 <= kWidest) left = std::max(left, row.shown.size() + 4);
  }
  left = std::min(left, columns / 2);
  std::string text = wrapped(fmt::format("usage: tandem {} {}", command_, usage_), columns, 7) +
                     "\n\n" + wrapped(summary_, columns) + "\n";
  for (const std::string& group : groups()) {
    text += fmt::format("\n{}:\n", group);
    for (const Row& row : rows_) {
      if (row.group != group) continue;
      const bool beside = row.shown.size() + 4 <= left;
      text +=
          "  " + row.shown +
          (beside ? std::string(left - 2 - row.shown.size(), ' ') : "\n" + std::string(left, ' ')) +
          wrapped(row.help, columns, left) + "\n";
    }
  }
  std::string codes;
  for (const auto& [code, meaning] : kExitCodes)
    codes += fmt::format("{} {} {}", codes.empty() ? "" : ",", static_cast<int>(code), meaning);
  return text + "\n" + wrapped("Exit codes:" + codes, columns) + "\n";
}

void Options::check_words() const {
  const auto reject_words = [this](const std::string& why) {
    refuse(*this, "{} (usage: tandem {} {})", why, command_, usage_);
  };
  if (std::ssize(words_) < least_) reject_words("missing " + what_);
  if (std::ssize(words_) > most_)
    reject_words(fmt::format("unexpected \"{}\"", words_[static_cast<std::size_t>(most_)]));
  if (std::ranges::find(words_, "") != words_.end())
    reject_words(fmt::format("expected {}, found \"\"", what_));
}

std::vector<NamedFile> Options::inputs() const {
  std::vector<NamedFile> files;
  for (const std::string& word : words_) files.push_back({what_, word});
  for (const Row& row : rows_) {
    if (row.use != Use::input || !has(row.name)) continue;
    const std::string title = "--" + row.name;
    files.push_back({title, text(row.name)});
    if (!row.list) continue;
    const std::string values = text(row.name);
    for (const std::string_view one : split(values, ",;"))
      files.push_back({title, std::string(one)});
  }
  return files;
}

std::vector<NamedFile> Options::outputs() const {
  std::vector<NamedFile> files;
  for (const Row& row : rows_) {
    if (row.use == Use::output && has(row.name)) files.push_back({"--" + row.name, text(row.name)});
  }
  return files;
}

std::string Options::command_line() const {
  std::string line = "tandem " + command_;
  for (const std::string& word : arguments_) line += " " + shell_word(word);
  return line;
}

std::string Options::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

OptionValue Options::operator[](const std::string& name) const {
  return {command_, name, text(name)};
}

std::int64_t Options::integer(const std::string& name, std::int64_t least, std::int64_t most,
                              std::int64_t otherwise) const {
  return has(name) ? (*this)[name].integer(least, most) : otherwise;
}

double Options::number(const std::string& name, double least, double most, double otherwise) const {
  return has(name) ? (*this)[name].number(least, most) : otherwise;
}

std::string Options::choice(const std::string& name,
                            const std::vector<std::string>& choices) const {
  return has(name) ? (*this)[name].choice(choices) : choices.front();
}

void refuse(const Options& options, const std::string& why) {
  throw UsageError(fmt::format("tandem {}: {}", options.command(), why));
}

// ---- What is read and what is written ----

namespace {

/// The files that are read because the plan names them; none of a plan that can't be read.
std::vector<NamedFile> files_named_by_plan(const std::string& path) {
  std::vector<NamedFile> files;
  try {
    const Plan& plan = read_cached<read_plan>(path);
    if (!plan.profile.empty()) files.push_back({"the plan's profile", beside(path, plan.profile)});
    if (!plan.schedule_file.empty())
      files.push_back({"the plan's schedule", beside(path, plan.schedule_file)});
  } catch (const InputError&) {
    return {};  // who reads the plan says what is wrong with it
  }
  return files;
}

/// Of those that may be names of the catalogue, the ones that are files. A plan is always one.
std::vector<NamedFile> inputs_of(const Options& options) {
  std::vector<NamedFile> inputs = options.inputs();
  std::vector<NamedFile> named;
  for (const NamedFile& input : inputs) {
    if (input.title != "PLAN") continue;
    for (NamedFile& file : files_named_by_plan(input.path)) named.push_back(std::move(file));
  }
  inputs.insert(inputs.end(), named.begin(), named.end());
  std::erase_if(inputs, [](const NamedFile& input) {
    struct stat ignored{};
    return input.title != "PLAN" && ::stat(input.path.c_str(), &ignored) != 0;
  });
  return inputs;
}

}  // namespace

void check_files_differ(const Options& options, const std::vector<NamedFile>& outputs) {
  if (outputs.empty()) return;
  for (const NamedFile& input : inputs_of(options)) {
    for (const NamedFile& output : outputs) {
      if (!same_file(input.path, output.path)) continue;
      refuse(options, "{} {} would replace a file that is read: {} {}", output.title, output.path,
             input.title, input.path);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const NamedFile &one = outputs[j], &other = outputs[i];
      if (!same_file(one.path, other.path)) continue;
      // Both only add to what is written as it stands.
      if (output_place(one.path).as_it_stands && output_place(other.path).as_it_stands) continue;
      refuse(options, "{} and {} would both write {}", one.title, other.title, other.path);
    }
  }
}

}  // namespace tandem::tools
