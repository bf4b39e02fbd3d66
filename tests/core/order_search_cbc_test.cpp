// The schedule search against an integer program of the same question, solved by CBC. It knows
// nothing of words: every two ops of a device are ordered by a variable of their own, so that
// microbatches may overtake one another.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/schedules/common.h"
#include "core/schedules/search/order_search.h"
#include "tests/support/order_problems.h"
#include "tests/support/run_command.h"

namespace tandem::testing {
namespace {

/// In CPLEX's LP format: the least makespan of a batch. REQUIRES: transfers that occupy no link.
class IntegerProgram {
 public:
  explicit IntegerProgram(const OrderProblem& problem) : problem_(problem) {
    for (const OrderProblem::Device& device : problem.devices) {
      for (const std::int64_t time : device.times) longest_ += time * problem.microbatches;
      longest_ += device.after + 2 * device.to_next * problem.microbatches;
    }
    for (int j = 0; j < devices(); ++j) add_device(j);
  }

  std::string text() const {
    return "minimize\n makespan\nsubject to\n" + rows_ + "binary\n" + binaries_ + "end\n";
  }

 private:
  int devices() const { return static_cast<int>(problem_.devices.size()); }
  std::int64_t time(int j, int kind) const {
    return problem_.devices[static_cast<std::size_t>(j)].times[static_cast<std::size_t>(kind)];
  }
  static std::string start(int j, int kind, int k) { return fmt::format("s{}_{}_{}", j, kind, k); }
  void row(const std::string& text) { rows_ += " " + text + "\n"; }

  void after(int j, int kind, int k, int from, int from_kind, std::int64_t transfer) {
    row(fmt::format("{} - {} >= {}", start(j, kind, k), start(from, from_kind, k),
                    time(from, from_kind) + transfer));
  }

  void add_device(int j) {
    const OrderProblem::Device& device = problem_.devices[static_cast<std::size_t>(j)];
    const int m = problem_.microbatches, ops = 3 * m;
    for (int k = 0; k < m; ++k) {
      if (j > 0)
        after(j, 0, k, j - 1, 0, problem_.devices[static_cast<std::size_t>(j - 1)].to_next);
      after(j, 1, k, j, 0, 0);
      if (j + 1 < devices()) after(j, 1, k, j + 1, 1, device.to_next);
      after(j, 2, k, j, 1, 0);
      row(fmt::format("makespan - {} >= {}", start(j, 2, k), time(j, 2) + device.after));
    }
    // y says whether a comes before b; the other way round it is 1 − y.
    const auto before = [&](int a, int b) { return fmt::format("y{}_{}_{}", j, a, b); };
    for (int a = 0; a < ops; ++a) {
      for (int b = a + 1; b < ops; ++b) {
        const std::string y = before(a, b);
        const std::string sa = start(j, a / m, a % m), sb = start(j, b / m, b % m);
        binaries_ += " " + y + "\n";
        if (a % m == b % m) row(y + " = 1");  // follows, and saves CBC time
        row(fmt::format("{} - {} - {} {} >= {}", sb, sa, longest_, y, time(j, a / m) - longest_));
        row(fmt::format("{} - {} + {} {} >= {}", sa, sb, longest_, y, time(j, b / m)));
      }
    }
    // After each forward: what the others before it hold, less what gradients before it freed; in
    // halves of an activation, small numbers for CBC.
    constexpr std::int64_t kHalf = kActivation / 2;
    for (int k = 0; k < m; ++k) {
      std::string sum;
      std::int64_t limit = std::min(device.cap / kHalf, std::int64_t{2} * m) - 2;
      for (int other = 0; other < ops; ++other) {
        if (other == k) continue;
        const std::int64_t holds = other < m       ? 2
                                   : other < 2 * m ? device.kept / kHalf - 2
                                                   : -device.kept / kHalf;
        if (other < k) {
          sum += fmt::format(" {:+} {}", holds, before(other, k));
        } else {
          sum += fmt::format(" {:+} {}", -holds, before(k, other));
          limit -= holds;
        }
      }
      if (!sum.empty()) row(fmt::format("{} <= {}", sum, limit));
    }
  }

  const OrderProblem& problem_;
  std::int64_t longest_ = 0;
  std::string rows_, binaries_;
};

/// What CBC says is the least; −1: it says something else.
double solved(const IntegerProgram& program) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "program.lp") << program.text();
  RunOptions options;
  options.folder = folder.path();
  options.timeout = std::chrono::minutes(2);
  // Debian's CBC 2.10.8 calls 159 optimal for one of these, where 152 is, unless so told.
  const Ran ran = run_command({"/usr/bin/cbc", "program.lp", "preprocess", "off", "solve",
                               "solution", "solution.txt", "quit"},
                              options);
  EXPECT_EQ(ran.code, 0) << ran.out;
  std::ifstream file(folder.path() / "solution.txt");
  std::string line;
  std::getline(file, line);
  constexpr std::string_view kOptimal = "Optimal - objective value ";
  EXPECT_TRUE(line.starts_with(kOptimal)) << ran.out;
  if (!line.starts_with(kOptimal)) return -1.0;
  return std::strtod(line.c_str() + kOptimal.size(), nullptr);
}

TEST(OrderSearch, FindsWhatAnIntegerProgramFinds) {
  if (!std::filesystem::exists("/usr/bin/cbc")) {
    ASSERT_EQ(std::getenv("CI"), nullptr) << "coinor-cbc is not installed";
    GTEST_SKIP() << "coinor-cbc is not installed";
  }
  struct Size {
    int devices, microbatches;
  };
  int tightened = 0;
  for (const Size size : {Size{2, 2}, Size{3, 2}, Size{2, 3}}) {
    for (std::uint64_t seed = 0; seed < (size.microbatches > 2 ? 2 : 6); ++seed) {
      ScheduleRequest request = random_order_request(seed, size.devices, size.microbatches);
      request.costs->shared_links = false;
      const OrderProblem problem = order_problem(request);
      const double least = solved(IntegerProgram(problem));
      EXPECT_NEAR(least, static_cast<double>(search_order(request).makespan.count()), 1e-3)
          << size.devices << " x " << size.microbatches << " seed " << seed;
      request.activation_caps.clear();
      tightened += static_cast<double>(search_order(request).makespan.count()) < least ? 1 : 0;
    }
  }
  EXPECT_GT(tightened, 0) << "no cap made a difference";
}

}  // namespace
}  // namespace tandem::testing
