// Memory runs out anywhere: a message and an exit code, no abort, no hang, no file half-written.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Not;

class OutOfMemory : public CommandLine {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
    write_plan();
    write("timeline.json", fixture("timeline.json"));
  }

  /// The first request that is refused; empty: none.
  Ran failing_from(const std::string& first, const std::string& line) const {
    RunOptions options;
    options.folder = folder();
    const std::string shell =
        fmt::format("export LD_PRELOAD={} MEMORY_FAILS_FROM={}; exec {} {}", TANDEM_FAILING_MEMORY,
                    first.empty() ? "999999999999" : first, TANDEM_BINARY, line);
    const Ran ran = run_command({"/bin/sh", "-c", shell}, options);
    EXPECT_FALSE(ran.timed_out) << shell;
    return ran;
  }

  /// How often the command asks for memory. The control: with all of it, it ends well.
  std::int64_t requests_of(const std::string& line) const {
    const Ran ran = failing_from("", line);
    EXPECT_EQ(ran.code, 0) << ran.err;
    constexpr std::string_view kMark = "requests: ";
    const std::size_t at = ran.err.rfind(kMark);
    EXPECT_NE(at, std::string::npos) << "not preloaded: " << ran.err;
    return at == std::string::npos ? 0 : std::stoll(ran.err.substr(at + kMark.size()));
  }

  /// What the command says when memory ends at one of `times` places, spread over all of its work.
  std::vector<std::string> said_by(const std::string& line, std::int64_t times = 12) const {
    // What fails before main() nobody can tell.
    const std::int64_t first = requests_of("version"), all = requests_of(line);
    EXPECT_GT(all, first);
    std::vector<std::string> said;
    for (std::int64_t i = 0; i < times; ++i) {
      write("out.json", "of before");
      const std::string from = std::to_string(first + (all - first) * i / times);
      const Ran ran = failing_from(from, line);
      EXPECT_EQ(ran.code, 1) << line << " from " << from << "\n" << ran.err;
      EXPECT_THAT(ran.err, StartsWith("error: "));
      EXPECT_THAT(ran.err, AnyOf(HasSubstr("memory"), HasSubstr("cannot write")));
      for (const char* leaked : {"terminate", "std::", "_M_", "libgcc"})
        EXPECT_THAT(ran.err, Not(HasSubstr(leaked))) << line << " from " << from;
      EXPECT_EQ(read("out.json"), "of before") << line << " from " << from;
      said.push_back(ran.err);
    }
    EXPECT_EQ(files(),
              (std::vector<std::string>{"out.json", "plan.json", "profile.json", "timeline.json"}))
        << line;
    return said;
  }
};

TEST_F(OutOfMemory, ACommandSaysSo) {
  for (const char* line :
       {"check plan.json --json", "simulate plan.json --trace out.json",
        "replay timeline.json --trace out.json",
        "plan --profile profile.json --devices 2 --global-batch 8 --memory 1MiB --output out.json",
        "import --from pytorch-csv --help", "schedule 1f1b --devices 4 --microbatches 8",
        "sweep --schedule 1f1b,2bw --devices 2,8 --microbatches 8,16 --forward 1ms --backward 2ms "
        "--threads 2 --json"}) {
    said_by(line);
  }
}

/// oneDNN itself would die, so it is left out.
TEST_F(OutOfMemory, ATrainingSaysWhatItNeeds) {
  bool figures = false;
  for (const std::string& said :
       said_by("train plan.json --steps 2 --kernels portable --trace out.json", 30)) {
    figures = figures || said.find("training this plan needs 442.3 KiB") != std::string::npos;
  }
  EXPECT_TRUE(figures);
}

TEST_F(OutOfMemory, WithJsonItIsAnObject) {
  const std::string line = "check plan.json --json";
  const std::int64_t half = (requests_of("version") + requests_of(line)) / 2;
  const Json failure = Json::parse(failing_from(std::to_string(half), line).out);
  EXPECT_EQ(failure["error"]["code"], 1);
  EXPECT_EQ(failure["error"]["message"], "out of memory");
}

}  // namespace
}  // namespace tandem::testing
