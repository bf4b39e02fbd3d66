#include "tools/cli/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <boost/algorithm/string.hpp>
#include <fmt/format.h>

#include "core/base/check.h"
#include "tools/cli/file_roles.h"
#include "tools/cli/terminal.h"
#include "tools/cli/wrapped_text.h"

namespace tandem::tools {

namespace po = boost::program_options;

Options::Options(std::string command, std::string usage, std::string summary,
                 const std::string& json)
    : command_(std::move(command)), usage_(std::move(usage)), summary_(std::move(summary)) {
  flag("json", json);
  flag("help,h", "show this");
}

Options& Options::group(const std::string& heading) {
  group_ = heading;
  return *this;
}

Options& Options::flag(const std::string& name, const std::string& help) {
  const std::size_t comma = name.find(',');
  const std::string word = name.substr(0, comma);
  const std::string letter =
      comma == std::string::npos ? std::string() : fmt::format("-{}, ", name.substr(comma + 1));
  known_.push_back(
      {.name = word,
       .argument = {},
       .flag_with_value = values_are_lists_,
       .letter = name.substr(std::min(comma, name.size())),
       .shown = fmt::format("{}--{}{}", letter, word, values_are_lists_ ? "[=yes|no]" : ""),
       .help = help,
       .group = group_});
  return *this;
}

Options& Options::declare(const Known& known, const std::string& help) {
  known_.push_back(known);
  known_.back().list = values_are_lists_;
  known_.back().shown = fmt::format("--{} {}", known.name, known.argument);
  known_.back().help = help;
  known_.back().group = group_;
  return *this;
}

Options& Options::value(const std::string& name, const std::string& argument,
                        const std::string& help) {
  TANDEM_CHECK(!argument.starts_with("FILE"), name);  // it is an input or an output
  return declare({.name = name, .argument = argument}, help);
}

Options& Options::input(const std::string& name, const std::string& argument,
                        const std::string& help) {
  return declare({.name = name, .argument = argument, .use = Use::input}, help);
}

Options& Options::output(const std::string& name, const std::string& argument,
                         const std::string& help) {
  return declare({.name = name, .argument = argument, .use = Use::output}, help);
}

Options& Options::words(const std::string& what, int least, int most) {
  what_ = what;
  least_ = least;
  most_ = most;
  return *this;
}

Options& Options::absent(const std::string& name) {
  absent_.push_back(name);
  return *this;
}

Options& Options::values_are_lists() {
  values_are_lists_ = true;
  return *this;
}

const std::string& Options::argument_of(const std::string& name) const {
  return find("--" + name).argument;
}

const Options::Known& Options::find(const std::string& word) const {
  std::vector<std::string> names;
  for (const Known& known : known_) {
    if (word == "--" + known.name) return known;
    names.push_back("--" + known.name);
  }
  if (std::find(absent_.begin(), absent_.end(), word.substr(2)) != absent_.end()) {
    throw UsageError(fmt::format("tandem {}: {} is not in this version", command_, word));
  }
  throw UsageError(
      fmt::format("tandem {}: unknown option {}{}", command_, word, did_you_mean(word, names)));
}

Arguments Options::joined(const Arguments& arguments) {
  Arguments joined;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      joined.insert(joined.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                    arguments.end());
      break;
    }
    joined.push_back(argument);
    if (argument.rfind("--", 0) != 0) continue;
    const std::size_t equal = argument.find('=');
    const Known& known = find(argument.substr(0, equal));
    const bool given = equal != std::string::npos;
    given_.push_back(known.name);
    if (known.flag_with_value && !given) joined.back() += "=yes";
    if (known.argument.empty()) continue;
    const bool follows = i + 1 < arguments.size() && arguments[i + 1].rfind("--", 0) != 0;
    if (!given && !follows) {
      throw UsageError(fmt::format("tandem {}: --{}: expected {}, found nothing", command_,
                                   known.name, known.argument));
    }
    if (given ? equal + 1 == argument.size() : arguments[i + 1].empty()) {
      throw UsageError(fmt::format("tandem {}: --{}: expected {}, found \"\"", command_, known.name,
                                   known.argument));
    }
    if (!given) joined.back() += "=" + arguments[++i];
  }
  return joined;
}

void Options::store(const Arguments& arguments) {
  po::options_description all;
  for (const Known& known : known_) {
    const std::string name = known.name + known.letter;
    if (known.argument.empty() && !known.flag_with_value) {
      all.add_options()(name.c_str(), "");
    } else {
      all.add_options()(name.c_str(), po::value<std::string>());
    }
  }
  all.add_options()("words", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("words", -1);
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(
        po::command_line_parser(arguments).options(all).positional(positional).style(style).run(),
        values_);
  } catch (const po::error& error) {
    throw UsageError(fmt::format("tandem {}: {} (tandem {} --help shows the options)", command_,
                                 error.what(), command_));
  }
  if (values_.count("words") > 0) words_ = values_["words"].as<std::vector<std::string>>();
}

void Options::parse(const Arguments& arguments) {
  store(joined(arguments));
  if (values_.count("help") == 0) {
    check_words();
    return check_files_differ(*this);
  }
  fmt::print("{}", help());
  throw HelpShown{};
}

std::string Options::help() const {
  constexpr std::size_t kWidest = 32;  // of options beside what they mean
  const std::size_t columns = text_columns();
  std::size_t left = 0;
  std::vector<std::string> groups;
  for (const Known& known : known_) {
    if (known.shown.size() + 4 <= kWidest) left = std::max(left, known.shown.size() + 4);
    if (std::find(groups.begin(), groups.end(), known.group) == groups.end())
      groups.push_back(known.group);
  }
  left = std::min(left, columns / 2);
  // What every command has stands behind what is its own.
  std::rotate(groups.begin(), groups.begin() + 1, groups.end());
  std::string text = wrapped(fmt::format("usage: tandem {} {}", command_, usage_), columns, 7) +
                     "\n\n" + wrapped(summary_, columns) + "\n";
  for (const std::string& group : groups) {
    text += fmt::format("\n{}:\n", group);
    for (const Known& known : known_) {
      if (known.group != group) continue;
      const bool beside = known.shown.size() + 4 <= left;
      text += "  " + known.shown +
              (beside ? std::string(left - 2 - known.shown.size(), ' ')
                      : "\n" + std::string(left, ' ')) +
              wrapped(known.help, columns, left) + "\n";
    }
  }
  return text + "\n" +
         wrapped(
             "Exit codes: 0 done, 1 failed, 2 usage, 3 invalid input, 4 infeasible, 5 "
             "environment, 6 differences, 130 interrupted",
             columns) +
         "\n";
}

void Options::check_words() const {
  if (static_cast<int>(words_.size()) < least_) {
    throw UsageError(fmt::format("tandem {}: missing {} (usage: tandem {} {})", command_, what_,
                                 command_, usage_));
  }
  if (static_cast<int>(words_.size()) > most_) {
    throw UsageError(fmt::format("tandem {}: unexpected \"{}\" (usage: tandem {} {})", command_,
                                 words_[static_cast<std::size_t>(most_)], command_, usage_));
  }
  if (std::find(words_.begin(), words_.end(), "") != words_.end()) {
    throw UsageError(fmt::format("tandem {}: expected {}, found \"\" (usage: tandem {} {})",
                                 command_, what_, command_, usage_));
  }
}

std::vector<NamedFile> Options::inputs() const {
  std::vector<NamedFile> files;
  for (const std::string& word : words_) files.push_back({what_, word});
  for (const Known& known : known_) {
    if (known.use != Use::input || !has(known.name)) continue;
    const std::string title = "--" + known.name;
    files.push_back({title, text(known.name)});
    if (!known.list) continue;
    std::vector<std::string> values;
    boost::split(values, text(known.name), boost::is_any_of(",;"));
    for (const std::string& value : values) files.push_back({title, value});
  }
  return files;
}

std::vector<NamedFile> Options::outputs() const {
  std::vector<NamedFile> files;
  for (const Known& known : known_) {
    if (known.use == Use::output && has(known.name))
      files.push_back({"--" + known.name, text(known.name)});
  }
  return files;
}

void Options::reject(const std::string& name, const std::string& expected) const {
  throw UsageError(fmt::format("tandem {}: --{}: expected {}, found \"{}\"", command_, name,
                               expected, text(name)));
}

void Options::set(const std::string& name, std::string value) {
  unset(name);
  values_.insert({name, po::variable_value(boost::any(std::move(value)), false)});
}

std::string Options::text(const std::string& name, const std::string& otherwise) const {
  return has(name) ? values_[name].as<std::string>() : otherwise;
}

std::int64_t Options::integer(const std::string& name, std::int64_t least, std::int64_t most,
                              std::int64_t otherwise) const {
  if (!has(name)) return otherwise;
  const std::string word = text(name);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < least || value > most) {
    reject(name, fmt::format("an integer from {} to {}", least, most));
  }
  return value;
}

double Options::number(const std::string& name, double least, double most, double otherwise) const {
  if (!has(name)) return otherwise;
  const std::string word = text(name);
  double value = 0.0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() ||
      !(value >= least && value <= most)) {
    reject(name, fmt::format("a number from {} to {}", least, most));
  }
  return value;
}

Duration Options::duration(const std::string& name, Duration otherwise) const {
  if (!has(name)) return otherwise;
  const std::optional<Duration> value = parse_duration(text(name));
  if (!value) reject(name, "a time with its unit (ns, us, ms, s), such as 1.5ms");
  return *value;
}

std::optional<Bytes> Options::bytes(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  const std::optional<Bytes> value = parse_bytes(text(name));
  if (!value) reject(name, "a size with its unit (B, KiB, MiB, GiB, KB, MB, GB), such as 16GiB");
  return value;
}

std::optional<double> Options::rate(const std::string& name) const {
  if (!has(name)) return std::nullopt;
  const std::optional<double> value = parse_rate(text(name));
  if (!value || *value <= 0.0)
    reject(name, "a rate with its unit (Mb/s, Gb/s, GB/s), such as 1Gb/s");
  return value;
}

std::string Options::choice(const std::string& name,
                            const std::vector<std::string>& choices) const {
  if (!has(name)) return choices.front();
  const std::string word = text(name);
  if (std::find(choices.begin(), choices.end(), word) == choices.end()) {
    std::string list;
    for (const std::string& one : choices) list += (list.empty() ? "" : "|") + one;
    throw UsageError(fmt::format("tandem {}: --{}: expected {}, found \"{}\"{}", command_, name,
                                 list, word, did_you_mean(word, choices)));
  }
  return word;
}

void refuse(const Options& options, const std::string& why) {
  throw UsageError(fmt::format("tandem {}: {}", options.command(), why));
}

}  // namespace tandem::tools
