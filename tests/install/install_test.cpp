// `cmake --install`: a command that a shell and man(1) know, and a library that another project
// finds by find_package(tandem) and builds with nothing but its headers. Each test installs into a
// folder of its own, which is gone at its end.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/run_command.h"
#include "tests/support/source_folder.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

RunOptions patient() {
  RunOptions options;
  options.timeout = std::chrono::minutes(4);
  return options;
}

class Install : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ran ran =
        run_command({TANDEM_CMAKE, "--install", TANDEM_BUILD, "--prefix", prefix()}, {});
    ASSERT_EQ(ran.code, 0) << ran.out << ran.err;
  }

  std::string prefix() const { return folder_.path() / "prefix"; }
  fs::path headers() const { return fs::path(prefix()) / "include"; }
  fs::path library() const {
    for (const auto& entry : fs::recursive_directory_iterator(prefix())) {
      if (entry.path().filename() == "tandemConfig.cmake") return entry.path();
    }
    return {};
  }

  /// cmake on the consumer, which finds tandem in `where`.
  Ran configure(const std::string& where, const Strings& more = {}) const {
    Strings command{TANDEM_CMAKE,
                    "-S",
                    TANDEM_CONSUMER,
                    "-B",
                    build(),
                    "-G",
                    TANDEM_GENERATOR,
                    std::string("-DCMAKE_CXX_COMPILER=") + TANDEM_COMPILER,
                    "-DCMAKE_PREFIX_PATH=" + where};
    command.insert(command.end(), more.begin(), more.end());
    return run_command(command, patient());
  }
  std::string build() const { return folder_.path() / "build"; }
  void build_consumers() const {
    const Ran configured = configure(prefix());
    ASSERT_EQ(configured.code, 0) << configured.out << configured.err;
    const Ran built = run_command({TANDEM_CMAKE, "--build", build()}, patient());
    ASSERT_EQ(built.code, 0) << built.out << built.err;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  Ran run_in_folder(const Strings& command) const {
    RunOptions options = patient();
    options.folder = folder_.path();
    return run_command(command, options);
  }

 private:
  TemporaryFolder folder_;
};

// ---- The library ----

TEST_F(Install, AProgramOfTwentyLinesIsBuiltAndSimulates) {
  build_consumers();
  const Ran ran = run_in_folder({build() + "/consumer"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  // 1F1B of m microbatches on p devices: (m + p − 1)(F + B) = 11 · 3 ms.
  EXPECT_EQ(ran.out, "a batch takes 0.033 s\n");
  const Ran checked = run_in_folder({prefix() + "/bin/tandem", "trace", "check", "1f1b.json"});
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
}

/// From a model to a plan that the command reads, and the time that the command says, too.
TEST_F(Install, AProgramPricesAModelOnAClusterAsTheCommandDoes) {
  build_consumers();
  const Strings tandem{prefix() + "/bin/tandem"};
  const auto command = [&](const Strings& words) {
    Strings line = tandem;
    line.insert(line.end(), words.begin(), words.end());
    return run_in_folder(line);
  };
  write("model.json", R"({"version": 1, "name": "small", "blocks": 6, "width": 512, "heads": 8,)"
                      R"( "sequence": 128})");
  const Ran ran = run_in_folder({build() + "/on_cluster"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(" s, fits\n"));
  const Ran simulated =
      command({"simulate", "--model", "model.json", "--cluster", "p3.16xlarge", "--schedule",
               "1f1b", "--depth", "4", "--width", "2", "--microbatches", "8", "--json"});
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  static const std::regex kMakespan(R"("makespan_s": ([0-9.e-]+))");
  std::smatch makespan;
  ASSERT_TRUE(std::regex_search(simulated.out, makespan, kMakespan)) << simulated.out;
  EXPECT_NEAR(std::stod(ran.out), std::stod(makespan[1]), 1e-9);
  for (const Strings& check : {Strings{"check", "plan.json"}, {"trace", "check", "1f1b.json"}}) {
    const Ran checked = command(check);
    EXPECT_EQ(checked.code, 0) << check.front() << ": " << checked.out << checked.err;
  }
}

TEST_F(Install, WithoutItNothingIsFound) {
  const Ran ran = configure(prefix() + "/elsewhere", {"-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"});
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("\"tandem\""));
}

TEST_F(Install, AnotherVersionIsRefused) {
  const Ran other = configure(prefix(), {"-DTANDEM_WANTED=9.0"});
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr("9.0"));
  const Ran same = configure(prefix(), {std::string("-DTANDEM_WANTED=") + TANDEM_VERSION});
  EXPECT_EQ(same.code, 0) << same.err;
}

// ---- Its headers ----

/// What a header may not include: "a.h includes b". Empty: the set `all`, by paths below include/,
/// is closed, and whoever includes it needs no package.
Strings faults_of(const std::string& header, const std::string& text,
                  const std::set<std::string>& all) {
  static const std::regex kInclude(R"re(#include ([<"])([^>"]*)[>"])re");
  Strings faults;
  for (std::sregex_iterator at(text.begin(), text.end(), kInclude), end; at != end; ++at) {
    const std::string name = (*at)[2];
    const bool of_a_package = (*at)[1] == "<" && name.find_first_of("/.") != std::string::npos;
    if (of_a_package || ((*at)[1] == "\"" && !all.contains(name)))
      faults.push_back(fmt::format("{} includes {}", header, name));
  }
  return faults;
}

TEST_F(Install, HeadersIncludeOneAnotherAndTheStandardLibrary) {
  std::set<std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(headers())) {
    if (entry.is_regular_file()) all.insert(fs::relative(entry.path(), headers()));
  }
  EXPECT_GT(all.size(), 20U);
  std::string whole;
  for (const std::string& header : all) {
    const std::string text = text_of(headers() / header);
    EXPECT_EQ(faults_of(header, text, all), Strings{}) << "tools/cmake/install.cmake lists too few";
    EXPECT_THAT(text, HasSubstr("\n// ")) << header << " does not say what it is for";
    whole += fmt::format("#include <{}>\n", header);
  }
  const std::string path = prefix() + "/all.cpp";
  std::ofstream(path) << whole;
  const Ran ran = run_command({TANDEM_COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
                               "-Wpedantic", "-I", headers(), path},
                              patient());
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
}

TEST(InstalledHeaders, AMissingOrForeignOneIsFound) {
  const std::set<std::string> all{"tandem/a.h", "tandem/b.h"};
  EXPECT_EQ(faults_of("tandem/a.h",
                      "#include <vector>\n#include \"tandem/b.h\"\n#include \"tandem/c.h\"\n"
                      "#include \"core/b.h\"\n#include <fmt/format.h>\n#include <boost/any.hpp>\n",
                      all),
            (Strings{"tandem/a.h includes tandem/c.h", "tandem/a.h includes core/b.h",
                     "tandem/a.h includes fmt/format.h", "tandem/a.h includes boost/any.hpp"}));
}

// ---- The command ----

// Parallel tests and packagers do it; what one writes on its way is not another's.
TEST_F(Install, SeveralMayRunAtOnce) {
  std::vector<std::future<Ran>> installs;
  for (int n = 0; n < 4; ++n) {
    const std::string where = fmt::format("{}-{}", prefix(), n);
    installs.push_back(std::async(std::launch::async, [where] {
      return run_command({TANDEM_CMAKE, "--install", TANDEM_BUILD, "--prefix", where}, {});
    }));
  }
  for (std::future<Ran>& install : installs) {
    const Ran ran = install.get();
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
}

TEST_F(Install, TheCommandItsManualAndItsCompletionsAreThere) {
  const Ran ran = run_in_folder({prefix() + "/bin/tandem", "--help"});
  EXPECT_EQ(ran.code, 0);
  std::size_t commands = 0;
  for (std::size_t at = ran.out.find("\n  "); at != std::string::npos;
       at = ran.out.find("\n  ", at + 1)) {
    if (ran.out[at + 3] == ' ') continue;  // a summary's second line
    const std::string name = ran.out.substr(at + 3, ran.out.find(' ', at + 3) - at - 3);
    const std::string page = text_of(fmt::format("{}/share/man/man1/tandem-{}.1", prefix(), name));
    EXPECT_THAT(page, HasSubstr(fmt::format("\n.SH NAME\ntandem\\-{} \\- ", name)));
    ++commands;
  }
  EXPECT_GT(commands, 15U);
  for (const char* file :
       {"share/man/man1/tandem.1", "share/man/man1/tandem-sweep-merge.1",
        "share/bash-completion/completions/tandem", "share/zsh/site-functions/_tandem",
        "share/fish/vendor_completions.d/tandem.fish", "share/doc/tandem/LICENSE",
        "share/doc/tandem/README.md"})
    EXPECT_NE(text_of(fs::path(prefix()) / file), "") << file;
  EXPECT_EQ(library().parent_path().filename(), "tandem");
}

// ---- What READMEs show ----

/// Blocks of C++ that use the installed library.
Strings examples_in(const std::string& readme) {
  Strings examples;
  constexpr std::string_view kFence = "```cpp\n";
  for (std::size_t at = readme.find(kFence); at != std::string::npos;
       at = readme.find(kFence, at + 1)) {
    const std::size_t first = at + kFence.size();
    const std::string block = readme.substr(first, readme.find("```", first) - first);
    if (block.find("tandem::") != std::string::npos) examples.push_back(block);
  }
  return examples;
}

/// The first line of `example` that the program does not have, in this order; empty: it has all.
std::string line_not_in(const std::string& program, const std::string& example) {
  std::size_t at = 0;
  for (std::size_t first = 0; first < example.size();) {
    const std::size_t end = std::min(example.find('\n', first), example.size());
    std::string line = example.substr(first, end - first);
    first = end + 1;
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) continue;
    const std::size_t found = program.find(line + "\n", at);
    if (found == std::string::npos) return line;
    at = found + line.size();
  }
  return {};
}

TEST(InstalledLibrary, ReadmesShowTheProgramThatIsTested) {
  const std::string program = text_of(fs::path(TANDEM_CONSUMER) / "main.cpp");
  std::size_t examples = 0;
  for (const char* readme : {"README.md", "tools/README.md"}) {
    for (const std::string& example : examples_in(text_of(source_folder() / readme))) {
      ++examples;
      EXPECT_EQ(line_not_in(program, example), "") << readme;
    }
  }
  EXPECT_GE(examples, 1U);
}

TEST(InstalledLibrary, AnExampleThatIsNotTheProgramIsFound) {
  const Strings examples = examples_in(
      "```cpp\nint a;\n```\n```cpp\ntandem::f();\n  g();\n```\n```\ntandem::h();\n```\n");
  ASSERT_EQ(examples, Strings{"tandem::f();\n  g();\n"});
  EXPECT_EQ(line_not_in("  tandem::f();\n  g();\n", examples[0]), "");
  EXPECT_EQ(line_not_in("tandem::f(1);\n  g();\n", examples[0]), "tandem::f();");
  EXPECT_EQ(line_not_in("g();\ntandem::f();\n", examples[0]), "g();");
}

}  // namespace
}  // namespace tandem::testing
