#include "core/program/graph.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/pipelines.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

TEST(MaximumCycleRatio, IsTheWorkOfTheSlowestLaneOfAFullPipeline) {
  const Program program = program_of(pipeline("2bw", 3, 4));
  EXPECT_DOUBLE_EQ(maximum_cycle_ratio(program, plain_costs(program, {})), 4 * 3.0);
}

TEST(MaximumCycleRatio, IsTheWholeRoundTripOfAFlush) {
  const Program program = program_of(pipeline("gpipe", 3, 4));
  EXPECT_DOUBLE_EQ(maximum_cycle_ratio(program, plain_costs(program, {})), (4 + 2) * 3.0);
}

TEST(MaximumCycleRatio, KnowsOneDeviceAndNoCosts) {
  const Program program = program_of(pipeline("1f1b", 1, 1));
  EXPECT_DOUBLE_EQ(maximum_cycle_ratio(program, plain_costs(program, {})), 3.0);
  EXPECT_DOUBLE_EQ(
      maximum_cycle_ratio(program, plain_costs(program, {.forward = 0, .backward = 0})), 0.0);
}

TEST(MaximumCycleRatio, CountsATransferThatNoLaneHolds) {
  const Program program = program_of(pipeline("2bw", 2, 2), TransferLanes::ideal);
  // F + B + 2c(p − 1)/p a microbatch.
  const PlainCosts costs{.forward = 10, .backward = 20, .transfer = 4};
  EXPECT_DOUBLE_EQ(maximum_cycle_ratio(program, plain_costs(program, costs)), 2 * (30 + 4.0));
}

/// Every line is one that the grammar of DOT knows here; every edge joins two nodes there are.
void expect_well_formed(const std::string& dot, std::size_t nodes) {
  static const std::regex node_line(R"re( {4}n(\d+) \[label="[^"]+"\];)re");
  static const std::regex edge_line(R"re( {2}n(\d+) -> n(\d+)( \[[a-z]+=[^\]]+\])?;)re");
  static const std::regex other_line(
      R"re(digraph "[^"]+" \{|  rankdir=LR;|  node \[shape=box\];|  subgraph cluster_\d+ \{|)re"
      R"re(    label="device \d+";|  \}|\})re");
  std::set<std::string> names;
  std::istringstream lines(dot);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, node_line)) {
      EXPECT_TRUE(names.insert(match.str(1)).second) << line;
    } else if (std::regex_match(line, match, edge_line)) {
      EXPECT_TRUE(names.contains(match.str(1))) << line;
      EXPECT_TRUE(names.contains(match.str(2))) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, other_line)) << line;
    }
  }
  EXPECT_EQ(names.size(), nodes);
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '{'), std::count(dot.begin(), dot.end(), '}'));
}

TEST(ToDot, IsWellFormedForEverySchedule) {
  for (const std::string& name : schedule_names()) {
    for (const Pipeline& wanted : every_pipeline(name, {1, 2, 4}, {2, 4})) {
      SCOPED_TRACE(wanted.name());
      const Program program = program_of(wanted);
      expect_well_formed(to_dot(program), program.size());
    }
  }
}

TEST(ToDot, DrawsLanesDottedAndWaitsAcrossBodiesDashed) {
  const std::string dot = to_dot(program_of(pipeline("2bw", 2, 2)));
  EXPECT_THAT(dot, HasSubstr("label=\"f0\""));
  EXPECT_THAT(dot, HasSubstr("label=\"send_activation 0→1 #1\""));
  EXPECT_THAT(dot, HasSubstr("[style=dotted]"));
  EXPECT_THAT(dot, HasSubstr("[style=dashed, label=\"1\"]"));
}

}  // namespace
}  // namespace tandem::testing
