// Logs of nccl-tests become constants, and these prices of sums.

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

/// As all_reduce_perf prints it, of 1 KiB to 64 MiB over devices of which four share a node: 5 us
/// and 20 us a hop; then 2 GB/s, or 40 us and 100 GB/s within and 40 GB/s between nodes.
std::string log_of(int devices) {
  const int nodes = (devices + 3) / 4;
  std::string text = "# nThread 1 nGpus 1 minBytes 1024 maxBytes 67108864 step: 2(factor)\n";
  for (int i = 0; i < devices; ++i)
    text +=
        fmt::format("#  Rank {:2} Pid {} on node-{} device {} [0x00] card\n", i, i, i / 4, i % 4);
  const double factor = 2.0 * (devices - 1) / std::max(devices, 2);
  for (double bytes = 1024; bytes <= 67108864; bytes *= 2) {
    const double low_latency = bytes / 2e3;
    const double simple = 40 + factor * bytes / (nodes > 1 ? 40e3 : 100e3);
    const double us = 5 + 40 * std::log2(nodes) + low_latency * simple / (low_latency + simple);
    const std::string measured =
        fmt::format("{:.2f} {:.2f} {:.2f} N/A", us, bytes / us / 1e3, factor * bytes / us / 1e3);
    text += fmt::format("{:.0f} {:.0f} float sum -1 {} {}\n", bytes, bytes / 4, measured, measured);
  }
  return text + "# Avg bus bandwidth    : 1\n";
}

std::string constants(double between_nodes, double node_hop = 2e-5) {
  return fmt::format(R"({{"version": 1, "launch_s": 5e-6, "node_hop_s": {}, "simple_s": 4e-5,
"low_latency_bytes_per_s": 2e9, "within_node_bytes_per_s": 1e11,
"between_nodes_bytes_per_s": {}}})",
                     node_hop, between_nodes);
}

class Collectives : public CommandLine {
 protected:
  void write_logs() const {
    for (const int devices : {1, 2, 4, 8, 16})
      write(fmt::format("{}.log", devices), log_of(devices));
  }
};

TEST_F(Collectives, LogsBecomeConstants) {
  write_logs();
  const Ran ran =
      tandem("import --from nccl-tests 16.log 8.log 4.log 2.log 1.log --output found.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, StartsWith("1.log: "));
  EXPECT_THAT(ran.out, HasSubstr("\n68 all-reduces "));
  const Json found = Json::parse(read("found.json"));
  EXPECT_NEAR(found["launch_s"].get<double>(), 5e-6, 1e-6);
  EXPECT_NEAR(found["node_hop_s"].get<double>(), 2e-5, 2e-6);
  EXPECT_NEAR(found["within_node_bytes_per_s"].get<double>(), 100e9, 5e9);
  EXPECT_NEAR(found["between_nodes_bytes_per_s"].get<double>(), 10e9, 1e9);
  EXPECT_EQ(tandem("import --from nccl-tests 16.log 8.log 4.log 2.log 1.log").out, ran.out);

  const Json json = json_of("import --from nccl-tests 2.log 4.log 8.log 16.log --json");
  EXPECT_EQ(json["result"]["constants"], found);
  EXPECT_LT(json["result"]["mean_error"].get<double>(), 0.02);
  EXPECT_EQ(json["result"]["measurements"].size(), 68U);
}

TEST_F(Collectives, LogsThatSayTooLittleAreRefused) {
  write_logs();
  expect_refused("import --from nccl-tests 8.log 16.log", 3, "0 all-reduces within a node");
  write("cut.log", log_of(2).substr(0, 500));
  const Ran cut = tandem("import --from nccl-tests 2.log cut.log 16.log --output found.json");
  EXPECT_EQ(cut.code, 3);
  EXPECT_THAT(cut.err, HasSubstr("\ncut.log: error: "));
  EXPECT_FALSE(exists("found.json"));
  EXPECT_EQ(tandem("import --from nccl-tests absent.log").code, 3);
}

TEST_F(Collectives, PriceSumsOnACluster) {
  write("slow.json", constants(1e9));
  write("fast.json", constants(1e12));
  const std::string names =
      "simulate --model gpt2 --cluster 2xp3.16xlarge --schedule data-parallel --json";
  const auto rate = [&](const std::string& more) {
    return json_of(names + more)["result"]["throughput_samples_per_s"].get<double>();
  };
  EXPECT_LT(rate(" --collectives slow.json"), rate(" --collectives fast.json"));
  EXPECT_EQ(rate(" --collectives fast.json --link-fraction 0.1"), rate(" --collectives fast.json"));
  EXPECT_LT(rate(" --link-fraction 0.1"), rate(""));
  const Json assumptions = json_of(names + " --collectives slow.json")["assumptions"];
  EXPECT_EQ(assumptions["collectives"]["between_nodes_bytes_per_s"], 1e9);
  EXPECT_NE(assumptions["notes"], json_of(names)["assumptions"]["notes"]);
}

TEST_F(Collectives, LogsOfOneMachinePriceItsSumsAndNoOthers) {
  write_logs();
  const Ran ran = tandem("import --from nccl-tests 2.log 4.log --output found.json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\n34 all-reduces "));
  const Json found = Json::parse(read("found.json"));
  EXPECT_EQ(keys_of(found),
            (std::vector<std::string>{"version", "launch_s", "simple_s", "low_latency_bytes_per_s",
                                      "within_node_bytes_per_s"}));
  EXPECT_NEAR(found["within_node_bytes_per_s"].get<double>(), 100e9, 5e9);
  const std::string names = "simulate --model gpt2 --schedule data-parallel --collectives ";
  const Json known = json_of(names + "found.json --cluster p3.16xlarge --json");
  EXPECT_EQ(known["assumptions"]["collectives"], found);
  expect_refused(names + "found.json --cluster 2xp3.16xlarge", 3, "16 devices spans 2 nodes");
  write("half.json",
        with(read("found.json"), "\"simple_s\"", "\"node_hop_s\": 1e-6, \"simple_s\""));
  const Ran half = tandem(names + "half.json --cluster p3.16xlarge");
  EXPECT_EQ(half.code, 3);
  EXPECT_THAT(half.err, HasSubstr("between_nodes_bytes_per_s"));
}

TEST_F(Collectives, ConstantsThatAreNoneAreRefused) {
  write("bad.json", constants(0));
  const std::string names = "simulate --model gpt2 --cluster p3.16xlarge --schedule 2bw";
  const Ran bad = tandem(names + " --collectives bad.json");
  EXPECT_EQ(bad.code, 3);
  EXPECT_THAT(bad.err, HasSubstr("bad.json:3:30: error: /between_nodes_bytes_per_s: "));
}

}  // namespace
}  // namespace tandem::testing
