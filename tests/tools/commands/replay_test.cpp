// tandem replay as a user meets it: a timeline made by hand, the published one, and wrong ones.

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/data.h"
#include "tests/support/production_timeline.h"
#include "tests/support/pytorch_trace.h"
#include "tests/support/recordings.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class ReplayCommand : public CommandLine {
 protected:
  /// Rank 1 of replica 1 is slow, in both steps.
  void SetUp() override {
    write("t.json",
          timeline_text(recording_of({two_stages({}, 3, 0), two_stages(kSlowSecond, 3, 1),
                                      two_stages({}, 3, 2), two_stages({}, 4, 0),
                                      two_stages(kSlowSecond, 4, 1), two_stages({}, 4, 2)})));
    write("m.yaml", "trial_name: hand\ndp_size: 3\npp_size: 2\n");
  }
};

double varied_phase(const Json& result, const std::string& name) {
  for (const Json& row : result["what_if"]) {
    if (row["name"] == name) return row["phase_s"];
  }
  ADD_FAILURE() << name;
  return 0.0;
}

TEST_F(ReplayCommand, NamesTheSlowRankAndWhatItCosts) {
  const Json json = json_of("replay t.json --meta m.yaml --without stage:1,replica:0 --json");
  EXPECT_EQ(json["command"], "replay");
  EXPECT_TRUE(json["warnings"].empty());
  const Json& result = json["result"];
  EXPECT_EQ(result["order"], "1f1b");
  EXPECT_EQ(result["transfers"], "blocking");
  EXPECT_EQ(result["microbatches"], 2);
  EXPECT_EQ(result["replicas"], Json::array({0, 1, 2}));
  EXPECT_EQ(result["mean_error_percent"], 0.0);
  const double slow = std::chrono::duration<double>(two_stages_phase(kSlowSecond)).count();
  ASSERT_EQ(result["steps"].size(), 2u);
  EXPECT_EQ(result["steps"][1]["step"], 4);
  EXPECT_DOUBLE_EQ(result["steps"][1]["measured_s"], slow);
  const double shared_out = std::chrono::duration<double>(two_stages_phase(kAThirdSlow)).count();
  EXPECT_DOUBLE_EQ(result["steps"][1]["what_if_s"]["no stragglers"], shared_out);
  EXPECT_DOUBLE_EQ(varied_phase(result, "as replayed"), slow);
  EXPECT_DOUBLE_EQ(varied_phase(result, "no stragglers"), shared_out);
  EXPECT_DOUBLE_EQ(varied_phase(result, "without stage 1"), 0.093);
  EXPECT_DOUBLE_EQ(varied_phase(result, "without rank 1/1"), 0.093);
  EXPECT_DOUBLE_EQ(varied_phase(result, "without replica 1"), 0.093);
  EXPECT_DOUBLE_EQ(varied_phase(result, "without rank 0/1"), slow);
  EXPECT_DOUBLE_EQ(varied_phase(result, "without stage:1,replica:0"), 0.093);
}

TEST_F(ReplayCommand, PrintsTablesForPeople) {
  const Ran ran = tandem("replay t.json");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr(" 0.0000 % "));
  EXPECT_THAT(ran.out, HasSubstr("\nwithout stage 1 "));
  EXPECT_THAT(ran.out, HasSubstr("\nwithout rank 1/1, "));
  write("t.json", timeline_text(recording_of({two_stages({}, 3, 0), two_stages({}, 3, 1)})));
  EXPECT_THAT(tandem("replay t.json").out, ::testing::Not(HasSubstr("\nwithout rank 1/1, ")));
}

/// Ranks of a stage that never wait for one another: the phase is that of the slower pipeline, and
/// its ops come from both.
TEST_F(ReplayCommand, TensorRanksAreReplayedTogether) {
  constexpr TwoStages kSlowFirst{.forward = {ms(30), ms(10)}, .backward = {ms(40), ms(20)}};
  const auto recording = [](const TwoStages& costs) {
    return recording_of({two_stages(costs, 3, 0), two_stages(costs, 4, 0)});
  };
  const double first = std::chrono::duration<double>(two_stages_phase(kSlowFirst)).count();
  const double second = std::chrono::duration<double>(two_stages_phase(kSlowSecond)).count();
  ASSERT_NE(first, second);
  for (const bool numbered : {true, false}) {
    write("ranks.json", timeline_text({recording(kSlowFirst), recording(kSlowSecond)}, numbered));
    write("m.yaml", "pp_size: 2\ntp_size: 2\ndp_size: 1\nworld_size: 4\n");
    const Json json = json_of("replay ranks.json --meta m.yaml --json");
    EXPECT_TRUE(json["warnings"].empty()) << json["warnings"];
    EXPECT_EQ(json["result"]["ranks_of_a_stage"], 2);
    EXPECT_EQ(json["result"]["mean_error_percent"], 0.0);
    EXPECT_DOUBLE_EQ(json["result"]["steps"][0]["measured_s"], std::max(first, second));
  }
  write("one.json", timeline_text(recording(kSlowFirst)));
  EXPECT_DOUBLE_EQ(json_of("replay one.json --json")["result"]["steps"][0]["measured_s"], first);
  EXPECT_THAT(tandem("replay ranks.json").out,
              StartsWith("ranks.json: 2 stages x 1 replica of 2 ranks "));
}

TEST_F(ReplayCommand, ReadsTheTracesOfPytorchsRanks) {
  const Recording done = recording_of({two_stages({}, 0), two_stages(kSlowSecond, 1, 0, ms(400))});
  write("r0.json", pytorch_text(done, DeviceId{0}));
  write("r1.json", pytorch_text(done, DeviceId{1}, {.clock_ahead = ms(7000), .sends_wait = ms(2)}));
  const Json json = json_of("replay r1.json r0.json --json");
  EXPECT_EQ(json["config"]["timeline"], Json::array({"r1.json", "r0.json"}));
  const Json& result = json["result"];
  EXPECT_EQ(result["order"], "1f1b");
  EXPECT_EQ(result["transfers"], "overlapped");
  ASSERT_EQ(result["steps"].size(), 2u);
  EXPECT_DOUBLE_EQ(result["steps"][0]["measured_s"], 0.093);
  EXPECT_DOUBLE_EQ(result["steps"][0]["replayed_s"], 0.092);
  EXPECT_DOUBLE_EQ(result["steps"][0]["whole_s"], 0.4);
  EXPECT_DOUBLE_EQ(result["steps"][1]["replayed_s"], 0.152);
  EXPECT_TRUE(result["steps"][1]["whole_s"].is_null());
  EXPECT_DOUBLE_EQ(varied_phase(result, "no stragglers"), 0.122);  // 11 + 2 · (15 + 30) + 1 + 20
  EXPECT_THAT(tandem("replay r0.json r1.json").out,
              StartsWith("r0.json and 1 more: 2 stages x 1 replica,"));
  expect_refused("replay r0.json r0.json", 3, "r0.json: ");
}

TEST_F(ReplayCommand, ReadsBackwardsInTwoHalves) {
  Recording done = recording_of({two_stages({})});
  for (std::vector<RecordedOp>& ops : done.passes.front().devices) {
    const std::vector<RecordedOp> whole = std::exchange(ops, {});
    for (RecordedOp op : whole) {
      ops.push_back(op);
      if (op.kind != OpKind::backward) continue;
      ops.back().kind = OpKind::backward_input;
      ops.back().end = op.start = op.start + ms(12);
      op.kind = OpKind::backward_weight;
      ops.push_back(op);
    }
  }
  for (const int rank : {0, 1}) {
    write(fmt::format("r{}.json", rank), pytorch_text(done, DeviceId(rank)));
  }
  const Json stage = json_of("replay r0.json r1.json --json")["result"]["stages"][1];
  EXPECT_DOUBLE_EQ(stage["backward_s"], 0.0);
  EXPECT_DOUBLE_EQ(stage["backward_input_s"], 0.012);
  EXPECT_DOUBLE_EQ(stage["backward_weight_s"], 0.008);
  EXPECT_THAT(tandem("replay r0.json r1.json").out,
              HasSubstr("stage     forward    backward  input-gradient  weight-gradient\n"));
  EXPECT_THAT(tandem("replay t.json").out, HasSubstr("stage     forward    backward\n"));
}

TEST_F(ReplayCommand, WritesAStepAsATrace) {
  EXPECT_EQ(tandem("replay t.json --trace out.json.gz --step 4").code, 0);
  const Ran check = tandem("trace check out.json.gz");
  EXPECT_EQ(check.code, 0) << check.out;
  const Json compared = json_of("compare out.json.gz out.json.gz --json")["result"];
  EXPECT_EQ(compared["matched"], 12);  // 8 computations, 4 transfers
  EXPECT_EQ(compared["makespan"]["error_percent"], 0.0);
}

TEST_F(ReplayCommand, ShowsAStepOnAPage) {
  ASSERT_EQ(tandem("replay t.json --report page.html --step 4 --without stage:1").code, 0);
  const std::string page = read("page.html");
  constexpr std::string_view kOpen = R"(<script type="application/json" id="data">)";
  const std::size_t first = page.find(kOpen) + kOpen.size();
  const Json data = Json::parse(page.substr(first, page.find("</script>", first) - first));
  EXPECT_EQ(data["title"], "step 4, replica 0");
  EXPECT_THAT(data["command"],
              "tandem replay t.json --report page.html --step 4 --without stage:1");
  ASSERT_EQ(data["frames"].size(), 5u);
  EXPECT_EQ(data["what_if"][0]["frames"], Json::array({0, 1, 2, 3, 4}));
  EXPECT_EQ(data["frames"][4]["label"], "without stage:1");
  for (const Json& frame : data["frames"]) {
    const bool measured = frame["label"] == "measured";
    EXPECT_EQ(frame["boxes"]["type"].size(), measured ? 12u : 14u);  // and updates
    EXPECT_EQ(frame["boxes"]["critical"].empty(), measured);
    EXPECT_EQ(frame["table"]["rows"].size(), 2u);
  }
  EXPECT_EQ(data["frames"][0]["facts"][0]["number"], 0.093);
  EXPECT_EQ(tandem("replay t.json --report picture.svg").code, 0);
  EXPECT_THAT(read("picture.svg"), StartsWith("<svg "));
}

TEST_F(ReplayCommand, RefusesWhatItCannotDo) {
  for (const char* word : {"stage", "stage:", "stage:x", "stage:-1", "rank:1", "rank:1/", "node:1",
                           "replica:1.5", "stage:1,,stage:0"}) {
    const Ran ran = tandem({"replay", "t.json", "--without", word});
    EXPECT_EQ(ran.code, 2) << word;
    EXPECT_THAT(ran.err, HasSubstr("--without: "));
  }
  EXPECT_EQ(tandem("replay t.json --transfers fast").code, 2);
  expect_refused("replay gone.json", 3, "gone.json: ");
  expect_refused("replay t.json --without stage:2", 3, "--without stage:2: ");
  expect_refused("replay t.json --without rank:1/3", 3, "--without rank:1/3: ");
  expect_refused("replay t.json --step 4", 2, "--step");
  expect_refused("replay t.json --trace out.json --step 9", 3, "--step 9: ");
  expect_refused("replay t.json --report r.pdf", 2, "--report: ");
  expect_refused("replay t.json --report r.html --trace r.html", 2, "--trace and --report");
  write("m.yaml", "pp_size: 4\n");
  expect_refused("replay t.json --meta m.yaml", 3, "m.yaml: error: pp_size is 4");
}

TEST_F(ReplayCommand, RefusesATimelineCutInHalf) {
  const std::string text = read("t.json");
  write("t.json", text.substr(0, text.size() / 2));
  const Ran ran = tandem("replay t.json --json");
  EXPECT_EQ(ran.code, 3);
  const Json error = Json::parse(ran.out)["error"];
  EXPECT_EQ(error["file"], "t.json");
  EXPECT_GT(error["line"], 1);
}

/// ByteDance's trial ST: 8 GPUs, whose last stage is slow.
class ProductionTimeline : public DataTest {
 protected:
  Json replay(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> command{TANDEM_BINARY,
                                     "replay",
                                     data_path("straggler/timeline-ST.json.gz").string(),
                                     "--meta",
                                     data_path("straggler/meta-ST.yaml").string(),
                                     "--json"};
    command.insert(command.end(), options.begin(), options.end());
    const Ran ran = run_command(command, {});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    return Json::parse(ran.out);
  }
};

TEST_F(ProductionTimeline, IsReplayedToAHundredthOfAPercent) {
  const Json json = replay();
  const Json& result = json["result"];
  EXPECT_TRUE(json["warnings"].empty());
  EXPECT_EQ(result["order"], "1f1b");
  EXPECT_EQ(result["transfers"], "blocking");
  EXPECT_EQ(result["steps"].size(), 32u);
  EXPECT_LT(result["mean_error_percent"], 0.01);
  EXPECT_LT(result["worst_error_percent"], 0.02);
  EXPECT_LT(result["mean_error_without_pauses_percent"], 0.01);
}

/// What the phase is if ranks do not wait for one another, and without transfers: the checks above
/// would see it.
TEST_F(ProductionTimeline, NeedsItsTransfersAsTheyWere) {
  EXPECT_NEAR(replay({"--transfers", "overlapped"})["result"]["mean_error_percent"], 0.118, 0.01);
  EXPECT_NEAR(replay({"--transfers", "none"})["result"]["mean_error_percent"], 0.254, 0.01);
}

TEST_F(ProductionTimeline, ItsSlowStageIsFound) {
  const Json result = replay()["result"];
  EXPECT_EQ(result["what_if"][3]["name"], "without stage 3");
  EXPECT_GT(result["what_if"][3]["slowdown"], 1.2);
}

/// Computed apart from this code.
TEST_F(ProductionTimeline, ItsVariationsAreRight) {
  const Json result = replay({"--transfers", "none"})["result"];
  EXPECT_NEAR(varied_phase(result, "as replayed"), 2.0081636, 1e-6);
  EXPECT_NEAR(varied_phase(result, "no stragglers"), 2.0078502, 1e-6);
  EXPECT_NEAR(varied_phase(result, "balanced"), 1.7122660, 1e-6);
  EXPECT_NEAR(varied_phase(result, "without stage 3"), 1.4803918, 1e-6);
}

}  // namespace
}  // namespace tandem::testing
