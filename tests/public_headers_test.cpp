// The headers that are installed say what each thing in them means, and send nobody to a file that
// is not installed. Each rule is first shown to fire on a planted fault.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

std::string text_of(const std::string& path) {
  std::ifstream file(source_folder() / path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Strings lines_of(const std::string& text) {
  Strings lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

/// What tools/cmake/install.cmake installs.
Strings public_headers() {
  const std::string text = text_of("tools/cmake/install.cmake");
  const std::size_t list = text.find("set(tandem_public_headers");
  const std::string all = text.substr(list, text.find(')', list) - list);
  static const std::regex kHeader(R"([\w/]+\.h\b)");
  return {std::sregex_token_iterator(all.begin(), all.end(), kHeader), {}};
}

/// A type, a concept or a function, declared or defined; not what is declared ahead of its meaning.
enum class Declares { neither, type, function };

Declares what_declares(const std::string& statement) {
  static const std::regex kNeither(
      R"(^(?:static_assert|friend|inline constexpr \S+ k|using |class \w+;|struct \w+;))");
  static const std::regex kType(R"(^(?:template ?<.*?> )?(?:struct|class|enum|concept|union)\b)");
  if (std::regex_search(statement, kNeither)) return Declares::neither;
  if (std::regex_search(statement, kType)) return Declares::type;
  const std::string head = statement.substr(0, statement.find('{'));
  return head.find('(') == std::string::npos ? Declares::neither : Declares::function;
}

/// "core/a.h:7: struct A": types and functions of namespace tandem that no /// stands before. One
/// docstring serves functions that follow each other without an empty line.
Strings undocumented(const std::string& path, const std::string& text) {
  const Strings lines = lines_of(text);
  Strings found, spaces;
  bool documented = false, follows_function = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    static const std::regex kSpace(R"(^namespace ([\w:]+) \{$)");
    std::smatch match;
    if (std::regex_match(line, match, kSpace)) {
      spaces.push_back(match[1]);
    } else if (line.starts_with("}  // namespace") && !spaces.empty()) {
      spaces.pop_back();
    } else if (line.starts_with("///")) {
      documented = true;
    } else if (line.empty()) {
      documented = follows_function = false;
    } else if (!line.starts_with("//") && !line.starts_with('#') && !spaces.empty() &&
               spaces.back() == "tandem") {
      // A statement goes on until its braces are closed.
      const std::size_t first = i;
      std::string statement;
      for (int depth = 0; i < lines.size(); ++i) {
        const std::string code = lines[i].substr(0, lines[i].find("//"));
        depth += static_cast<int>(std::ranges::count(code, '{') - std::ranges::count(code, '}'));
        statement += code + ' ';
        const std::size_t last = statement.find_last_not_of(' ');
        if (depth == 0 && (statement[last] == ';' || statement[last] == '}')) break;
      }
      const Declares what = what_declares(statement);
      const bool said = documented || (what == Declares::function && follows_function);
      if (what != Declares::neither && !said)
        found.push_back(fmt::format("{}:{}: {}", path, first + 1, lines[first]));
      follows_function = what == Declares::function && said;
      documented = false;
    }
  }
  return found;
}

/// "core/a.h:7: core/b.cpp": files that comments name and that are not among `headers`. A file of a
/// user's has no folder before its name, but a header has.
Strings dead_ends(const std::string& path, const std::string& text, const Strings& headers) {
  static const std::regex kFile(R"([\w/]*\w\.(?:h|md|cpp|cmake)\b|\w+/[\w/]*\w\.json\b)");
  const Strings lines = lines_of(text);
  Strings found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string comment = lines[i].substr(std::min(lines[i].find("//"), lines[i].size()));
    for (std::sregex_iterator at(comment.begin(), comment.end(), kFile), end; at != end; ++at) {
      if (std::ranges::find(headers, at->str()) == headers.end())
        found.push_back(fmt::format("{}:{}: {}", path, i + 1, at->str()));
    }
  }
  return found;
}

TEST(PublicHeaders, SayWhatEachTypeAndFunctionMeans) {
  const Strings headers = public_headers();
  EXPECT_GT(headers.size(), 20U);
  for (const std::string& header : headers)
    EXPECT_EQ(undocumented(header, text_of(header)), Strings{});
}

TEST(PublicHeaders, NameNoFileThatIsNotInstalled) {
  const Strings headers = public_headers();
  for (const std::string& header : headers)
    EXPECT_EQ(dead_ends(header, text_of(header), headers), Strings{});
}

TEST(PublicHeaders, WhatIsNotSaidIsFound) {
  const auto in_tandem = [](const std::string& text) {
    return undocumented("a.h",
                        "// A file.\nnamespace tandem {\n\n" + text + "\n}  // namespace tandem\n");
  };
  EXPECT_EQ(in_tandem("/// Meaning.\nstruct A {\n  int a = 0;\n\n  int f() const;\n};\n"),
            Strings{});
  EXPECT_EQ(in_tandem("struct A {\n  int a;\n};\n"), Strings{"a.h:4: struct A {"});
  EXPECT_EQ(in_tandem("// Of whom?\nenum class A : char { a };\n"),
            Strings{"a.h:5: enum class A : char { a };"});
  EXPECT_EQ(in_tandem("/// Of A.\nenum class A { a };\nint name(A a);\n"),
            Strings{"a.h:6: int name(A a);"});
  EXPECT_EQ(in_tandem("/// Both.\nint f();\nint f(\n    int a);\n\nint g();\n"),
            Strings{"a.h:9: int g();"});
  EXPECT_EQ(in_tandem("template <class T>\nT f(T t) {\n  return t;\n}\n"),
            Strings{"a.h:4: template <class T>"});
  EXPECT_EQ(in_tandem("class Ahead;\nusing Name = int;\ninline constexpr int kMost = 3;\n"),
            Strings{});
  EXPECT_EQ(undocumented("a.h",
                         "namespace tandem {\nnamespace detail {\nint f();\n}  // namespace "
                         "detail\n}  // namespace tandem\n"),
            Strings{});
}

TEST(PublicHeaders, ADeadEndIsFound) {
  const Strings headers{"core/a.h"};
  EXPECT_EQ(dead_ends("core/a.h",
                      "#include \"core/b.h\"\n// See core/a.h, a plan.json.\n/// See core/b.h.\n"
                      "int a;  // core/FORMATS.md, or core/model/a.json\n",
                      headers),
            (Strings{"core/a.h:3: core/b.h", "core/a.h:4: core/FORMATS.md",
                     "core/a.h:4: core/model/a.json"}));
}

}  // namespace
}  // namespace tandem::testing
