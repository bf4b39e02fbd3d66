// What train takes besides a plan: learning rates, recomputation, data, validation and a log.

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/fuzz_input.h"
#include "tests/support/schedule_mutations.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

class Train : public CommandLine {
 protected:
  void SetUp() override { write_plan(); }
  Json losses(const std::string& options) const {
    return json_of("train plan.json --json " + options)["result"]["losses"];
  }
};

TEST_F(Train, TakesALearningRateSchedule) {
  const Json constant = losses("--steps 8");
  for (const std::string schedule : {"linear", "cosine", "wsd --decay-steps 6"}) {
    const std::string options = "--steps 8 --warmup 1 --lr-schedule " + schedule;
    EXPECT_NE(losses(options), constant) << schedule;
    EXPECT_EQ(losses(options + " --verify"), losses(options + " --reference")) << schedule;
  }
  EXPECT_EQ(losses("--steps 8 --lr-schedule constant"), constant);
  EXPECT_EQ(losses("--steps 8 --lr-schedule linear --min-learning-rate 5e-4"), constant)
      << "down to where it began";
}

TEST_F(Train, RecomputesSelectivelyToTheSameBitsInLessMemory) {
  const Json plain = json_of("train plan.json --steps 3 --verify --json");
  write_plan(with(plan_text(), R"("recompute": "none")", R"("recompute": "selective")"));
  const Json selective = json_of("train plan.json --steps 3 --verify --json");
  EXPECT_EQ(selective["result"]["losses"], plain["result"]["losses"]);
  for (const std::size_t device : {0u, 1u}) {
    const Json& less = selective["result"]["memory"][device];
    EXPECT_EQ(less["equal"], true);
    if (device == 0) {  // two stashes and one scratch; the last stage holds one of each
      EXPECT_LT(less["high_water_bytes"], plain["result"]["memory"][device]["high_water_bytes"]);
    }
  }
}

TEST_F(Train, TrainsSlicesAsTheyAreProfiledAndPlanned) {
  write("model.json", kModel);
  json_of("profile --model model.json --slices 2 --repetitions 1 --output sliced.json --json");
  const std::string plan = "plan --devices 2 --global-batch 4 --schedule seq1f1b ";
  json_of(plan + "--profile sliced.json --output plan.json --json");
  const Json sequence = Json::parse(kModel)["sequence"];
  // The timed ones, or others by the fit: one repetition decides as it likes.
  std::istringstream slices(Json::parse(read("plan.json"))["slices"].get<std::string>());
  int in_slices = 0;
  for (std::string length; std::getline(slices, length, ',');) in_slices += std::stoi(length);
  EXPECT_EQ(in_slices, sequence.get<int>());
  EXPECT_EQ(json_of("simulate plan.json --json")["config"]["schedule"], "seq1f1b");
  const Json trained = json_of("train plan.json --steps 3 --json --verify");
  for (const Json& device : trained["result"]["memory"]) EXPECT_EQ(device["equal"], true);
  EXPECT_EQ(json_of("train plan.json --steps 3 --json --reference")["result"]["losses"],
            trained["result"]["losses"]);
  const Ran unmeasured = tandem("simulate plan.json --profile profile.json");
  EXPECT_THAT(unmeasured.err, HasSubstr("the profile has no times of slices"));
  // By few repetitions whole sequences may seem the fastest; then the equal ones stay.
  const Ran timed = tandem(
      "profile --model model.json --slices by-time --repetitions 1 --output timed.json --json");
  ASSERT_EQ(timed.code, 0) << timed.err;
  const Json by_time = Json::parse(timed.out);
  int tokens = 0;
  for (const Json& slice : by_time["result"]["slices"]) {
    EXPECT_EQ(slice["before"], tokens);
    tokens += slice["tokens"].get<int>();
  }
  EXPECT_EQ(tokens, sequence.get<int>());
  // And so does a user schedule.
  write("mine.schedule",
        "# mine  devices 2  microbatches 2  slices 2\n"
        "0 | f0 f1 f2 b1 f3 b0 b3 b2 U\n"
        "1 | f0 f1 b1 f2 b0 f3 b3 b2 U\n");
  json_of(
      "plan --profile sliced.json --global-batch 2 --schedule-file mine.schedule --output "
      "own.json --json");
  json_of("train own.json --steps 3 --json --verify");
}

TEST_F(Train, TrainsAUserSchedule) {
  const std::string plan = "plan --profile profile.json --global-batch 4 --output own.json ";
  write("mine.schedule",
        "# mine  devices 2  microbatches 4\n"
        "0 | f0 f1 f2 i1 i0 f3 w1 w0 b3 b2 U\n"
        "1 | f0 f1 b1 b0 f2 f3 b3 b2 U\n");
  json_of(plan + "--json --schedule-file mine.schedule");
  EXPECT_EQ(Json::parse(read("own.json"))["schedule_file"], "mine.schedule");
  EXPECT_THAT(tandem("check own.json").out, HasSubstr("mine, 2 stages"));
  EXPECT_EQ(json_of("simulate own.json --json")["config"]["schedule"], "mine");
  for (const char* options : {"", " --clip 0.5", " --clip 0.01 --post-validation"}) {
    const Json trained = json_of(std::string("train own.json --steps 3 --json --verify") + options);
    for (const Json& device : trained["result"]["memory"]) EXPECT_EQ(device["equal"], true);
  }
  write("mine.csv", tandem("schedule zbv --devices 2 --microbatches 4 --format pytorch-csv").out);
  json_of(plan + "--json --schedule-file mine.csv");
  json_of("train own.json --steps 3 --json --verify");
}

/// Plans of several copies of the model are written by hand.
TEST_F(Train, TrainsAUserScheduleInBothDirections) {
  write("mine.schedule",
        "# mine  devices 2  microbatches 4\n# stages 0 1 1 0\n# replicas 0 1 0 1\n# edges 0>1 2>3\n"
        "0 | 0f0 0f1 3f2 3b2 3f3 3b3 0b0 0b1 0U 3U\n"
        "1 | 2f2 2f3 1f0 1b0 1f1 1b1 2b2 2b3 1U 2U\n");
  write_plan(with(plan_text(), R"("schedule": "2bw")",
                  R"("schedule": "mine", "schedule_file": "mine.schedule")"));
  for (const char* options : {"", " --clip 0.5"})
    json_of(std::string("train plan.json --steps 3 --json --verify") + options);
}

TEST_F(Train, RefusesAUserScheduleThatIsWrongOrOfAnotherShape) {
  const std::string plan =
      "plan --profile profile.json --global-batch 4 --output own.json --schedule-file ";
  const std::string right =
      "# mine  devices 2  microbatches 4\n"
      "0 | f0 f1 f2 f3 b0 b1 b2 b3 U\n"
      "1 | f0 f1 f2 f3 b0 b1 b2 b3 U\n";
  write("mine.schedule", right);
  expect_refused(plan + "mine.schedule --devices 2", 2, "--devices");
  json_of(plan + "mine.schedule --json");
  write("mine.schedule", with(right, "0 | f0 f1 f2 f3 b0 b1", "0 | f0 f1 f2 f3 b1 b0"));
  EXPECT_EQ(tandem("train own.json --steps 2 --verify").code, 0) << "an order for each stage";
  const std::string uneven =
      "# mine  devices 2  microbatches 4\n"
      "0 | f0 b0 U0+1 f1 f2 f3 b1 b2 b3 U3+3\n"
      "1 | f0 b0 U0+1 f1 f2 f3 b1 b2 b3 U3+3\n";
  write("mine.schedule", uneven);
  for (const std::string& command : {plan + "mine.schedule", std::string("check own.json"),
                                     std::string("train own.json --steps 1")})
    expect_refused(command, 3, "stage 0 (device 0): ");
  write("mine.schedule", with(right, "1 | f0 f1", "1 | b0 f0 f1"));
  EXPECT_EQ(tandem("train own.json --steps 1").code, 3) << "b0 twice";
  write("mine.schedule", "# mine  devices 2  microbatches 1\n0 | b0 f0 U\n1 | f0 b0 U\n");
  EXPECT_EQ(tandem(plan + "mine.schedule").code, 4) << "waits for itself";
  EXPECT_THAT(tandem("train own.json --steps 1").err,
              HasSubstr("own.json:19:19: error: /microbatches: "));
  std::filesystem::remove(folder() / "mine.schedule");
  EXPECT_EQ(tandem("train own.json --steps 1").code, 3);
}

// The same for thousands of schedules, without the command line: tests/executor.
TEST_F(Train, EndsWellForWhatCheckAcceptsAndForNothingElse) {
  const testing::ScheduleText right(tandem("schedule 1f1b --devices 2 --microbatches 4").out);
  write_plan(with(plan_text(), R"("schedule": "2bw")",
                  R"("schedule": "1f1b", "schedule_file": "mutant.schedule")"));
  int accepted = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    testing::ScheduleText mutant = right;
    for (std::uint64_t changes = random() % 3; changes > 0; --changes) mutant.mutate(random);
    write("mutant.schedule", mutant.text());
    const int checked = tandem("check plan.json").code;
    const int trained = tandem("train plan.json --steps 2 --verify").code;
    EXPECT_EQ(trained, checked) << "seed " << seed << "\n" << mutant.text();
    EXPECT_THAT(checked, ::testing::AnyOf(0, 3, 4)) << mutant.text();
    ++(checked == 0 ? accepted : refused);
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(refused, 5);
}

/// Lines of a log, each an object.
std::vector<Json> objects_of(const std::string& log) {
  std::vector<Json> lines;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = log.find('\n', at);
    EXPECT_NE(end, std::string::npos) << "a line is cut short";
    lines.push_back(Json::parse(log.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

TEST_F(Train, LogsEachStepAsAJsonObject) {
  const Json result = json_of(
      "train plan.json --steps 6 --json --warmup 2 --lr-schedule linear --learning-rate 0.5 "
      "--validate-every 3 --log run.jsonl")["result"];
  const std::vector<Json> lines = objects_of(read("run.jsonl"));
  ASSERT_EQ(lines.size(), 6u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i]["loss"], result["losses"][i]);
    EXPECT_GT(lines[i]["gradient_norm"], 0.0);
    EXPECT_FALSE(lines[i].contains("skipped"));
    EXPECT_GT(lines[i]["step_s"], 0.0);
    EXPECT_GT(lines[i]["tokens_per_s"], 0.0);
    EXPECT_EQ(lines[i].contains("validation_loss"), i == 2 || i == 5);
    EXPECT_FALSE(lines[i].contains("predicted_step_s")) << "the plan predicts nothing";
    EXPECT_GE(lines[i]["foreign_cpu"], 0.0);
    EXPECT_LE(lines[i]["stolen_cpu"], 1.0);
    EXPECT_EQ(lines[i]["time"].get<std::string>().size(), 20u);
  }
  EXPECT_EQ(lines[0]["learning_rate"], 0.25);
  EXPECT_EQ(lines[1]["learning_rate"], 0.5);
  EXPECT_EQ(lines[4]["learning_rate"], 0.25) << "half of the way down";
  ASSERT_EQ(result["validation"].size(), 2u);
  EXPECT_EQ(result["validation"][1]["step"], 6);
  EXPECT_EQ(result["validation"][1]["loss"], lines[5]["validation_loss"]);
}

TEST_F(Train, ClipsByTheNormOfAllGradientsAsTheReferenceDoes) {
  const Json plain = losses("--steps 4 --learning-rate 0.01");
  const Json clipped = losses("--steps 4 --learning-rate 0.01 --clip 0.01 --verify");
  EXPECT_NE(clipped, plain);
  EXPECT_EQ(losses("--steps 4 --learning-rate 0.01 --clip 1000 --verify"), plain);
  EXPECT_EQ(losses("--steps 4 --learning-rate 0.01 --on-nan skip --verify"), plain);
}

TEST_F(Train, CountsTheUpdatesThatPostValidationRolledBack) {
  write_plan(with(plan_text(), R"("schedule": "2bw")", R"("schedule": "zb-h2")"));
  const std::string run =
      "train plan.json --steps 4 --learning-rate 0.01 --post-validation --verify ";
  const Ran always = tandem(run + "--clip 0.01 --log log.jsonl");
  EXPECT_EQ(always.code, 0) << always.err;
  EXPECT_THAT(always.out, HasSubstr("4 of 4 updates"));
  EXPECT_THAT(read("log.jsonl"), HasSubstr("\"rolled_back\":true"));
  EXPECT_EQ(json_of(run + "--clip 1000 --json")["result"]["rollbacks"], 0);
  const Ran unasked = tandem("train plan.json --steps 2 --post-validation");
  EXPECT_EQ(unasked.code, 3);
  EXPECT_THAT(unasked.err, HasSubstr("--clip NORM"));
}

TEST_F(Train, PipeDreamOffersToClipPerStage) {
  write_plan(with(with(plan_text(), R"("schedule": "2bw")", R"("schedule": "pipedream")"),
                  R"("sequence": 16)", R"("sequence": 16, "tied": false)"));
  const Ran refused = tandem("train plan.json --steps 2 --clip 1.0");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("--clip per-stage"));
  EXPECT_EQ(tandem("train plan.json --steps 3 --clip per-stage:0.05 --verify").code, 0);
}

TEST_F(Train, OverSlowLinksTakesLongerAndChangesNoBit) {
  const Json fast = json_of("train plan.json --steps 4 --json")["result"];
  const Json slow = json_of("train plan.json --steps 4 --json --link-rate 100KB/s")["result"];
  EXPECT_EQ(slow["losses"], fast["losses"]);
  const double predicted_fast = json_of("simulate plan.json --json")["result"]["period_s"];
  const double predicted_slow =
      json_of("simulate plan.json --json --link-rate 100KB/s")["result"]["period_s"];
  EXPECT_GT(predicted_slow, predicted_fast);
  // A step waits for its transfers, whatever else this machine does.
  EXPECT_GT(slow["step_s"], 0.9 * (predicted_slow - predicted_fast));
  EXPECT_GT(fast["peak_resident_bytes"], 1 << 20);
}

TEST_F(Train, StepsTakeTheTimeThatPasses) {
  // Tied weights: the last two updates of 2BW are made together, when the last batch ends.
  const Json result =
      json_of("train plan.json --steps 6 --json --link-rate 100KB/s --log run.jsonl")["result"];
  const std::vector<Json> lines = objects_of(read("run.jsonl"));
  ASSERT_EQ(lines.size(), 6U);
  const double elapsed = result["elapsed_s"], tokens = 4 * 16;
  double sum = 0.0;
  for (const Json& line : lines) {
    EXPECT_GT(line["step_s"], 0.5 * result["step_s"].get<double>()) << line;
    sum += line["step_s"].get<double>();
    const double all = tokens * line["step"].get<double>();
    EXPECT_NEAR(line["tokens_per_s"].get<double>() * sum, all, 1e-6) << "of at most ten steps";
  }
  EXPECT_LE(sum, elapsed);
  // On slow links devices are not in kernels for long.
  json_of("train plan.json --steps 6 --json --log fast.jsonl");
  const Json slow = lines.back()["computing"],
             fast = objects_of(read("fast.jsonl")).back()["computing"];
  EXPECT_GT(slow, 0.0);
  EXPECT_LT(slow, 0.5);
  EXPECT_LE(fast, 1.0);
  EXPECT_GT(fast, 2 * slow.get<double>());
  EXPECT_NEAR(result["tokens_per_s"].get<double>() * elapsed, 6 * tokens, 1e-6);
  const Ran ran = tandem("train plan.json --steps 2");
  EXPECT_THAT(ran.out, HasSubstr("2 steps in "));
  EXPECT_THAT(ran.out, HasSubstr(" % in kernels"));
}

TEST_F(Train, ALogWrittenUntilTheInterruptIsWhole) {
  RunOptions interrupted;
  interrupted.interrupt_when = [](const Ran& so_far) { return !so_far.out.empty(); };
  const Ran ran = tandem("train plan.json --steps 10000000 --log run.jsonl", interrupted);
  EXPECT_EQ(ran.code, 130);
  const std::vector<Json> lines = objects_of(read("run.jsonl"));
  ASSERT_GT(lines.size(), 0u);
  EXPECT_EQ(lines.back()["step"], lines.size());
}

TEST_F(Train, ValidatesWithoutChangingWhatIsTrained) {
  for (const char* schedule : {"2bw", "1f1b"}) {
    write_plan(
        with(plan_text(), R"("schedule": "2bw")", fmt::format(R"("schedule": "{}")", schedule)));
    const Json plain = losses("--steps 7");
    const std::string validating = "--steps 7 --validate-every 2 --validation-batches 3";
    EXPECT_EQ(losses(validating), plain) << schedule;
    EXPECT_EQ(losses(validating + " --verify"), plain) << schedule;
  }
}

TEST_F(Train, ValidatesTheSameWeightsByThePipelineAndTheReference) {
  const std::string options = "train plan.json --json --steps 6 --validate-every 2";
  const Json pipeline = json_of(options)["result"]["validation"];
  EXPECT_EQ(pipeline.size(), 3u);
  EXPECT_EQ(json_of(options + " --reference")["result"]["validation"], pipeline);
  EXPECT_NE(pipeline[0]["loss"], pipeline[1]["loss"]);
  EXPECT_NE(json_of(options + " --validation-batches 5")["result"]["validation"], pipeline);
}

TEST_F(Train, PrintsValidationLosses) {
  const Ran ran = tandem("train plan.json --steps 4 --validate-every 4");
  EXPECT_THAT(ran.out, HasSubstr("\nstep     4  validation loss 5."));
}

TEST_F(Train, TakesTokenFilesForTexts) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("{} bottles, ", i);
  write("text.txt", text);
  EXPECT_EQ(json_of("tokens text.txt --output text.bin --json")["result"]["tokens"], text.size());
  EXPECT_EQ(read("text.bin").size(), 1024 + 2 * text.size());
  const Json from_text = losses("--steps 3 --data text.txt");
  EXPECT_EQ(losses("--steps 3 --data text.bin"), from_text);
  EXPECT_NE(losses("--steps 3"), from_text);
  json_of("tokens text.txt text.bin --output both.bin --json");
  EXPECT_EQ(read("both.bin").size(), 1024 + 4 * text.size());
}

TEST_F(Train, TakesShardsAndEpochs) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("{} bottles, ", i);
  write("one.txt", text.substr(0, 300));
  write("two.txt", text.substr(300));
  write("whole.txt", text);
  std::filesystem::create_directory(std::filesystem::path(folder()) / "shards");
  json_of("tokens one.txt --output shards/1.bin --json");
  json_of("tokens two.txt --output shards/2.bin --json");
  const Json whole = losses("--steps 3 --data whole.txt");
  EXPECT_EQ(losses("--steps 3 --data shards"), whole);
  const Json shuffled = losses("--steps 3 --data whole.txt --data-order shuffled");
  EXPECT_NE(shuffled, whole);
  EXPECT_EQ(losses("--steps 3 --data shards --data-order shuffled"), shuffled);
  EXPECT_EQ(losses("--steps 3 --data shards --data-order shuffled --reference"), shuffled);
  EXPECT_NE(losses("--steps 3 --data shards --data-order shuffled --seed 2"), shuffled);
  expect_refused("train plan.json --data-order sorted", 2, "--data-order");
  losses("--steps 2 --data shards --data-order shuffled --checkpoint kept");
  const Json resumed = losses("--steps 3 --data shards --data-order shuffled --resume kept");
  EXPECT_EQ(resumed, Json::array({shuffled[2]}));
  EXPECT_THAT(tandem("train plan.json --steps 3 --data shards --resume kept").err,
              HasSubstr("order of samples"));
}

TEST_F(Train, ChecksTheVocabularyOfATokenizerBeforeItTrains) {
  write("tokenizer.json", fuzz_input("tokenizer/gpt2.json"));
  write("text.txt", std::string(300, 'x') + " the end");
  json_of("tokens text.txt --tokenizer . --output text.bin --json");
  EXPECT_EQ(tandem("train plan.json --steps 1 --data text.bin").code, 3)
      << "of 600 tokens, for a model of 256";
}

TEST_F(Train, ValidatesByATextOfOneBatch) {
  write("text.txt", std::string(40, 'x'));
  const std::string train =
      "train plan.json --steps 1 --validate-every 1 --validation-data text.txt";
  EXPECT_EQ(tandem(train).code, 0);
  expect_refused(train + " --validation-batches 3", 2, "--validation-batches: ");
}

}  // namespace
}  // namespace tandem::testing
