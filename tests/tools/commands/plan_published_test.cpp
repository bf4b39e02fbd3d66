// `plan --planner`: published planners beside ours, on clusters and on graphs.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class PublishedPlanners : public CommandLine {
 protected:
  static constexpr const char* kQuestion =
      "plan --model gpt2-large --cluster DGX-A100 --global-batch 32 --planner pipedream,2bw";

  /// A diamond: two branches that may stand on two devices.
  static constexpr const char* kGraph =
      "node1 -- Conv -- forward_compute_time=1.0, backward_compute_time=0.0, activation_size=0.0, "
      "parameter_size=1000000000.0\n"
      "node2 -- Conv -- forward_compute_time=10.0, backward_compute_time=0.0, activation_size=0.0, "
      "parameter_size=1000000000.0\n"
      "node3 -- Conv -- forward_compute_time=10.0, backward_compute_time=0.0, activation_size=0.0, "
      "parameter_size=1000000000.0\n"
      "node4 -- Conv -- forward_compute_time=1.0, backward_compute_time=0.0, activation_size=0.0, "
      "parameter_size=1000000000.0\n"
      "\tnode1 -- node2\n\tnode1 -- node3\n\tnode2 -- node4\n\tnode3 -- node4";
};

TEST_F(PublishedPlanners, SimulateAgreesWithWhatIsSaid) {
  const auto run = tandem(std::string(kQuestion) + " --dtype fp16 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const Json result = Json::parse(run.out)["result"];
  ASSERT_EQ(result["published"].size(), 2u);
  std::size_t compared = 0;
  for (const Json& one : result["published"]) {
    const Json& plan = one["plan"];
    EXPECT_GT(plan["promised_s"], 0.0);
    for (const Json& form : plan["forms"]) {
      if (form["fits"] && form["one_update_a_batch"]) {
        EXPECT_GE(form["step_s"], result["ours"]["period_s"]);
      }
      if (form["untied"]) continue;
      const std::string command = form["simulated"]["command"];
      const auto simulated = tandem(command.substr(std::string("tandem ").size()) + " --json");
      ASSERT_EQ(simulated.code, 0) << command << simulated.err;
      EXPECT_DOUBLE_EQ(Json::parse(simulated.out)["result"]["period_s"],
                       form["simulated"]["period_s"])
          << command;
      ++compared;
    }
  }
  EXPECT_GE(compared, 2u);
}

TEST_F(PublishedPlanners, AreAskedOnceEach) {
  EXPECT_EQ(tandem(std::string(kQuestion) + ",pipedream").out, tandem(kQuestion).out);
}

TEST_F(PublishedPlanners, SayWhatTheyPromiseAndHowOursCompares) {
  const auto run = tandem(kQuestion);
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* text : {"pipedream: ", "2bw: ", "Promised by its own model: ",
                           "Simulated exactly: ", "Ours takes ", "Ours. Fastest: "})
    EXPECT_NE(run.out.find(text), std::string::npos) << text << run.out;
}

TEST_F(PublishedPlanners, WhatTheyDoNotTakeIsRefused) {
  for (const char* more : {" --tensor 2", " --depth 2", " --zero 1", " --schedule 1f1b"})
    EXPECT_EQ(tandem(std::string(kQuestion) + more).code, 2) << more;
  EXPECT_EQ(tandem("plan --model gpt2 --cluster DGX-A100 --global-batch 8 --planner best").code, 2);
  EXPECT_EQ(tandem("plan --profile none.json --devices 2 --global-batch 8 --planner 2bw").code, 2);
}

TEST_F(PublishedPlanners, AGraphIsPlannedAndSimulated) {
  write("graph.txt", kGraph);
  const auto run =
      tandem("plan --graph graph.txt --planner pipedream --devices 2 --link-rate 1GB/s --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const Json result = Json::parse(run.out)["result"];
  EXPECT_DOUBLE_EQ(result["promised_microbatch_s"], 0.011);
  EXPECT_DOUBLE_EQ(result["simulated_microbatch_s"], 0.011);  // links are free
  EXPECT_EQ(result["cuts"], 5);
  EXPECT_EQ(
      tandem("plan --graph graph.txt --planner pipedream --devices 2,2 --link-rate 1GB/s").code, 2);
  EXPECT_EQ(tandem("plan --graph graph.txt --planner max-load").code, 3);
  EXPECT_EQ(tandem("plan --graph graph.txt --planner pipedream --devices 2 --link-rate 1GB/s "
                   "--memory 1KiB")
                .code,
            0);  // of a stage on all devices nothing is counted, as by the authors
  EXPECT_EQ(tandem("plan --graph graph.txt --planner pipedream --devices 2 --link-rate 1GB/s "
                   "--model gpt2")
                .code,
            2);
}

TEST_F(PublishedPlanners, MaxLoadOfOperators) {
  write("graph.json",
        R"({"maxSizePerFPGA": 10, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [
        {"id": 1, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 3,
         "isBackwardNode": 0, "size": 5},
        {"id": 2, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 4,
         "isBackwardNode": 0, "size": 5},
        {"id": 3, "supportedOnFpga": 1, "cpuLatency": 9, "fpgaLatency": 2,
         "isBackwardNode": 0, "size": 5}],
        "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5},
        {"sourceId": 2, "destId": 3, "cost": 0.25}]})");
  const auto run = tandem("plan --graph graph.json --planner max-load --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const Json result = Json::parse(run.out)["result"];
  EXPECT_DOUBLE_EQ(result["max_load"], 6.5);  // 3 alone, or 7.25 the other way round
  EXPECT_EQ(tandem("plan --graph graph.json --planner max-load --memory 4B").code, 4);
  EXPECT_EQ(tandem("plan --graph graph.json --planner max-load --link-rate 1GB/s").code, 2);
}

}  // namespace
}  // namespace tandem::testing
