// tandem schedule.

#include <string>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class ScheduleCommand : public CommandLine {};

TEST_F(ScheduleCommand, ListsTheRegistry) {
  const Ran ran = tandem("schedule --list");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, StartsWith("name "));
  const Json schedules = json_of("schedule --list --json")["result"]["schedules"];
  for (const Json& row : schedules) {
    EXPECT_THAT(ran.out, HasSubstr("\n" + row["name"].get<std::string>() + " "));
    EXPECT_EQ(keys_of(row),
              (std::vector<std::string>{"name", "aliases", "summary", "source", "weights",
                                        "constraints", "bubble", "activations", "options"}));
  }
  EXPECT_EQ(schedules[3]["name"], "1f1b");
  EXPECT_EQ(schedules[3]["aliases"], Json::array({"flush", "pipedream-flush", "dapple"}));
}

TEST_F(ScheduleCommand, PrintsText) {
  EXPECT_EQ(tandem("schedule 1f1b --devices 2 --microbatches 2").out,
            "# 1f1b  devices 2  microbatches 2\n"
            "0 | f0 f1 b0 b1 U\n"
            "1 | f0 b0 f1 b1 U\n");
}

TEST_F(ScheduleCommand, TextIsWhatSimulateRuns) {
  const std::string costs = " --forward 1ms --backward 2ms --json";
  for (const std::string shape : {"2bw --devices 3 --microbatches 4",
                                  "1f1b-v --devices 2 "
                                  "--microbatches 3 --recompute full"}) {
    write("a.schedule", tandem("schedule " + shape + " --format text").out);
    EXPECT_EQ(json_of("simulate --schedule-file a.schedule" + costs)["result"],
              json_of("simulate --schedule " + shape + costs)["result"]);
  }
}

TEST_F(ScheduleCommand, TextKeepsUnitsAndSpans) {
  const std::string costs = " --forward 1ms --backward 2ms --overlapped 2ms --json";
  for (const std::string shape :
       {"dualpipev --devices 2 --microbatches 4", "dualpipe --devices 4 --microbatches 8",
        "2bp-1f1b-1 --devices 3 --microbatches 3"}) {
    write("a.schedule", tandem("schedule " + shape + " --format text").out);
    EXPECT_EQ(json_of("simulate --schedule-file a.schedule" + costs)["result"],
              json_of("simulate --schedule " + shape + costs)["result"]);
  }
}

TEST_F(ScheduleCommand, PrintsAPictureAtUnitCost) {
  const Ran ran = tandem("schedule 1f1b --devices 2 --microbatches 2 --format picture");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("\ndev 1 |"));
}

TEST_F(ScheduleCommand, PrintsJson) {
  const Json json = json_of("schedule flush --devices 2 --microbatches 2 --json");
  EXPECT_EQ(json["config"], (Json{{"schedule", "1f1b"}, {"devices", 2}}));
  EXPECT_EQ(json["result"]["microbatches"], 2);
  EXPECT_EQ(json["result"]["devices"][1]["order"][1]["kind"], "backward");
  EXPECT_EQ(json_of("schedule 1f1b --devices 2 --microbatches 2 --format json"), json);
}

TEST_F(ScheduleCommand, PrintsPytorchCsv) {
  EXPECT_EQ(tandem("schedule 1f1b --devices 2 --microbatches 2 --format pytorch-csv").out,
            "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(tandem("schedule 1f1b-v --devices 1 --microbatches 1 --format pytorch-csv").out,
            "0F0,1F0,1B0,0B0\n");
  EXPECT_EQ(tandem("schedule dualpipev --devices 2 --microbatches 4 --format pytorch-csv").out,
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,"
            "(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,0W3\n"
            "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,"
            "(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,1I3,2W3,1W3\n");
}

TEST_F(ScheduleCommand, RefusesPytorchCsvForWhatItHasNoWordsFor) {
  for (const std::string line : {"schedule 2bw --devices 2 --microbatches 2",
                                 "schedule 1f1b --devices 2 --microbatches 2 --recompute full",
                                 "schedule chimera --devices 2 --microbatches 2",
                                 "schedule bpipe --devices 4 --microbatches 4",
                                 "schedule 2bp-gpipe --devices 2 --microbatches 2"}) {
    const Ran ran = tandem(line + " --format pytorch-csv");
    EXPECT_EQ(ran.code, 3) << line;
    EXPECT_EQ(ran.out, "") << line;
    EXPECT_THAT(ran.err, HasSubstr("pytorch-csv"));
  }
}

TEST_F(ScheduleCommand, PytorchCsvIsImportedAndSimulated) {
  write("mine.csv", tandem("schedule zbv --devices 2 --microbatches 4 --format pytorch-csv").out);
  const std::string costs = " --forward 1ms --backward 2ms --json";
  const Json expected = json_of("simulate --schedule zbv --devices 2 --microbatches 4" + costs);
  EXPECT_EQ(json_of("simulate --schedule-file mine.csv" + costs)["result"], expected["result"]);
  const Ran imported = tandem("import --from pytorch-csv mine.csv");
  EXPECT_THAT(imported.out, StartsWith("# mine  devices 2  microbatches 4\n"));
  EXPECT_EQ(tandem("import --from pytorch-csv mine.csv --output mine.schedule").code, 0);
  EXPECT_EQ(read("mine.schedule"), imported.out);
  EXPECT_EQ(json_of("simulate --schedule-file mine.schedule" + costs)["result"],
            expected["result"]);
}

TEST_F(ScheduleCommand, ForeignSchedulesThatAreWrongAreRefused) {
  const std::string costs = " --forward 1ms --backward 2ms";
  write("bad.csv", "0F0,0B0\n1F0\n");
  EXPECT_EQ(tandem("simulate --schedule-file bad.csv" + costs).code, 3);
  write("stuck.csv", "0F0,0B0\n1B0,1F0\n");
  EXPECT_EQ(tandem("simulate --schedule-file stuck.csv" + costs).code, 4);
  write("unknown-norm.schedule",
        "# mine  devices 2  microbatches 2\n0 | f0 f1 b0 b1 U V\n1 | f0 b0 f1 b1 U V\n");
  const Ran ran = tandem("simulate --schedule-file unknown-norm.schedule" + costs);
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, HasSubstr("  0 | f0 f1 b0 b1 U1 V1\n"
                                 "                  ^^\n"));
}

TEST_F(ScheduleCommand, PrintsDot) {
  const Ran ran = tandem("schedule 2bw --devices 2 --microbatches 2 --format dot");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, StartsWith("digraph \"2bw\" {\n"));
  EXPECT_THAT(ran.out, ::testing::EndsWith("}\n"));
}

TEST_F(ScheduleCommand, KnowsTheNamesOfTheContract) {
  for (const std::string name :
       {"zb-h1",     "zb-h2",     "zb-1p",      "zb-2p",          "zb-auto",   "zbv",
        "zbv-auto",  "v-min",     "v-half",     "interleaved-zb", "v-zb",      "v-adaptive",
        "1f1b-v",    "hanayo",    "chimera",    "dualpipe",       "dualpipev", "bpipe",
        "2bp-naive", "2bp-gpipe", "2bp-1f1b-1", "2bp-1f1b-2",     "terapipe",  "seq1f1b",
        "pipemare",  "pipeoptim", "spectrain",  "xpipe",          "timeprest", "timeprest-i",
        "search"}) {
    const Ran ran = tandem("schedule " + name + " --devices 2 --microbatches 2");
    EXPECT_THAT(ran.code, ::testing::AnyOf(0, 3)) << name << ": " << ran.err;  // 3: of another size
  }
}

// Forwards that take longer than their gradients leave less room before the first backward.
TEST_F(ScheduleCommand, OrdersByCosts) {
  const std::string shape = "schedule zb-auto --devices 3 --microbatches 4";
  const std::string unit = tandem(shape).out;
  EXPECT_EQ(unit,
            "# zb-auto  devices 3  microbatches 4\n"
            "0 | f0 f1 f2 f3 i0 w0 i1 w1 i2 w2 i3 w3 U\n"
            "1 | f0 f1 f2 i0 f3 i1 w0 i2 w1 i3 w2 w3 U\n"
            "2 | f0 i0 f1 i1 f2 i2 f3 i3 w0 w1 w2 w3 U\n");
  const std::string equal = " --forward 1ms --backward-input 1ms --backward-weight 1ms";
  EXPECT_EQ(tandem(shape + equal).out, unit);
  EXPECT_EQ(tandem(shape + " --forward 3ms --backward 2ms").out,
            "# zb-auto  devices 3  microbatches 4\n"
            "0 | f0 f1 f2 i0 f3 w0 i1 w1 i2 w2 i3 w3 U\n"
            "1 | f0 f1 i0 f2 i1 f3 i2 w0 w1 w2 i3 w3 U\n"
            "2 | f0 i0 f1 i1 f2 i2 f3 i3 w0 w1 w2 w3 U\n");
  EXPECT_NE(tandem(shape + " --activation-cap 1").out, unit);
}

TEST_F(ScheduleCommand, TakesTheOptionsOfTheFamily) {
  EXPECT_EQ(tandem("schedule hanayo --devices 1 --microbatches 1 --waves 2").out,
            "# hanayo  devices 1  microbatches 1\n"
            "# stages 0 0 0 0\n"
            "0 | 0f0 1f0 2f0 3f0 3b0 2b0 1b0 0b0 0U 1U 2U 3U\n");
  EXPECT_THAT(tandem("schedule chimera --devices 4 --microbatches 4 --directions 4").out,
              HasSubstr("# replicas 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3\n"));
  EXPECT_EQ(tandem("schedule interleaved --devices 2 --microbatches 2").out,
            "# interleaved  devices 2  microbatches 2\n"
            "# stages 0 1 0 1\n"
            "0 | 0f0 0f1 2f0 2f1 2b0 2b1 0b0 0b1 0U 2U\n"
            "1 | 1f0 1f1 3f0 3b0 3f1 3b1 1b0 1b1 1U 3U\n");
  const auto config = [&](const std::string& shape) {
    return json_of("simulate --schedule " + shape +
                   " --forward 1ms --backward 2ms --json")["config"];
  };
  const Json chunked = config("interleaved --devices 2 --microbatches 5 --chunks 3 --group 3");
  EXPECT_EQ(chunked["chunks"], 3);
  EXPECT_EQ(chunked["group"], 3);
  const Json replicated = config("pipedream --replicas 2-1-1 --microbatches 4 --vertical-sync");
  EXPECT_EQ(replicated["devices"], 4);
  EXPECT_EQ(replicated["replicas"], Json::array({2, 1, 1}));
  EXPECT_EQ(replicated["vertical_sync"], true);
  EXPECT_EQ(config("data-parallel --microbatches 4 --width 3")["devices"], 1);
  EXPECT_EQ(config("1f1b --devices 2 --microbatches 4 --recompute selective")["recompute"],
            "selective");
  EXPECT_EQ(config("1f1b --devices 2 --microbatches 4 --clip 1.0")["global_norm"], true);
  EXPECT_EQ(config("1f1b --devices 2 --microbatches 4 --clip per-stage:0.5")["global_norm"], false);
  EXPECT_EQ(config("zb-h2 --devices 2 --microbatches 4 --clip 1.0")["post_validation"], false);
  EXPECT_EQ(
      config("zb-h2 --devices 2 --microbatches 4 --clip 1.0 --post-validation")["post_validation"],
      true);
}

TEST_F(ScheduleCommand, AStageMayClipByItsOwnNorm) {
  EXPECT_EQ(tandem("schedule pipedream --devices 2 --microbatches 2 --clip per-stage").code, 0);
  EXPECT_EQ(tandem("schedule pipedream --devices 2 --microbatches 2 --clip 1").code, 3);
}

TEST_F(ScheduleCommand, AbsurdSizesAreRefusedAtOnce) {
  const Ran ran = tandem("schedule gpipe --devices 4096 --microbatches 65535");
  EXPECT_EQ(ran.code, 3);
  EXPECT_LT(ran.peak_bytes, std::int64_t{1} << 30);
}

}  // namespace
}  // namespace tandem::testing
