// tandem schedule search, and simulate --schedule search.

#include <chrono>
#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class OrderSearchCommand : public CommandLine {
 protected:
  /// Four uneven stages, the third link slow.
  void write_costs() const {
    write("costs.json", R"({"version": 1, "stages": [
  {"forward_ns": 12000, "backward_input_ns": 11000, "backward_weight_ns": 13000},
  {"forward_ns": 10000, "backward_input_ns": 11000, "backward_weight_ns": 9000},
  {"forward_ns": 11000, "backward_input_ns": 9000, "backward_weight_ns": 10000},
  {"forward_ns": 14000, "backward_input_ns": 15000, "backward_weight_ns": 14000}],
"link_transfers_ns": [500, 500, 8000]})");
  }
  static constexpr const char* kUneven =
      " search --devices 4 --microbatches 8 --activation-cap 4,3,2.5,2 --costs costs.json";
  /// So large that nothing is proved, and hours of orders are allowed.
  static constexpr const char* kEndless =
      "schedule search --devices 8 --microbatches 24 --activation-cap 5 --forward 5ms "
      "--backward-input 7ms --backward-weight 4ms --transfer 1ms --orders 1000000000000";
};

TEST_F(OrderSearchCommand, PrintsAnOrderThatTakesWhatItSays) {
  write_costs();
  const std::string line = std::string("schedule") + kUneven;
  const Json search = json_of(line + " --json")["result"]["search"];
  EXPECT_LT(search["makespan_s"], search["fastest_named_makespan_s"]);
  EXPECT_GE(search["makespan_s"], search["bound_s"]);
  EXPECT_FALSE(search["is_named"]);
  EXPECT_FALSE(search["stopped"]);
  const Ran text = tandem(line);
  EXPECT_EQ(text.code, 0);
  write("order.txt", text.out);
  const Json again = json_of("simulate --schedule-file order.txt --costs costs.json --json");
  EXPECT_EQ(again["result"]["makespan_s"], search["makespan_s"]);
  const double caps[] = {4, 3, 2.5, 2};
  for (const Json& device : again["result"]["devices"])
    EXPECT_LE(device["peak_activations"], caps[static_cast<std::size_t>(device["device"])]);
  EXPECT_EQ(tandem(line).out, text.out) << "the same seed finds the same order";
}

TEST_F(OrderSearchCommand, SimulateSearchesToo) {
  write_costs();
  const std::string line = std::string("simulate --schedule") + kUneven;
  const Json json = json_of(line + " --json");
  EXPECT_EQ(json["result"]["makespan_s"], json["result"]["search"]["makespan_s"]);
  // Where a transfer occupies no link it is another problem.
  const Json ideal = json_of(line + " --lanes ideal --json");
  EXPECT_EQ(ideal["result"]["makespan_s"], ideal["result"]["search"]["makespan_s"]);
  EXPECT_LE(ideal["result"]["makespan_s"], json["result"]["makespan_s"]);
}

TEST_F(OrderSearchCommand, SaysThatANamedScheduleIsOptimal) {
  const std::string shape =
      " --devices 4 --microbatches 12 --forward 1ms --backward-input 1ms --backward-weight 1ms";
  const Ran ran = tandem("schedule search --activation-cap 4" + shape);
  EXPECT_EQ(ran.code, 0);
  const Json search =
      json_of("schedule search --json --activation-cap 4" + shape)["result"]["search"];
  EXPECT_TRUE(search["is_named"]);
  EXPECT_EQ(search["makespan_s"], 0.039);
  EXPECT_EQ(search["bound_s"], search["makespan_s"]);
  EXPECT_EQ(with(ran.out, "# search", "# zb-h1"),
            tandem("schedule zb-h1 --devices 4 --microbatches 12").out);
}

TEST_F(OrderSearchCommand, KeepsToItsTimeLimit) {
  const auto start = std::chrono::steady_clock::now();
  const Json search =
      json_of(std::string(kEndless) + " --time-limit 200ms --json")["result"]["search"];
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_TRUE(search["stopped"]);
  EXPECT_FALSE(search["interrupted"]);
  EXPECT_GE(search["seconds"], 0.2);
  EXPECT_LE(search["makespan_s"], search["fastest_named_makespan_s"]);
}

TEST_F(OrderSearchCommand, CtrlCPrintsTheBestSoFar) {
  RunOptions options;
  const auto start = std::chrono::steady_clock::now();
  options.interrupt_when = [start](const Ran&) {
    return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(700);
  };
  const Ran ran = tandem(kEndless, options);
  EXPECT_EQ(ran.code, 130);
  EXPECT_THAT(ran.err, HasSubstr("\nerror: interrupted "));
  write("order.txt", ran.out);
  EXPECT_EQ(tandem("simulate --schedule-file order.txt --forward 5ms --backward-input 7ms "
                   "--backward-weight 4ms --transfer 1ms")
                .code,
            0);
}

TEST_F(OrderSearchCommand, RefusesWhatItCannotDo) {
  const std::string shape = " --devices 3 --microbatches 4",
                    costs = " --forward 1ms --backward 2ms";
  EXPECT_EQ(tandem("schedule search --time-limit 5" + shape).code, 2);
  EXPECT_EQ(tandem("schedule search --orders -1" + shape).code, 2);
  EXPECT_EQ(tandem("simulate --schedule search --time-limit 1ms" + shape + costs).code, 0);
  EXPECT_EQ(tandem("simulate --schedule 1f1b --time-limit 1ms" + shape + costs).code, 2);
}

}  // namespace
}  // namespace tandem::testing
