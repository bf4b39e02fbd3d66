// simulate --report: what is in the page is what --json says, and each variation is a simulation.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "tests/support/source_folder.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

const std::string kRun =
    "simulate --schedule 2bw --devices 4 --microbatches 8 --forward 1ms --backward 2ms "
    "--transfer 100us --batches 3 --activation-bytes 10MiB --memory 64MiB";

class ReportFile : public CommandLine {
 protected:
  /// The data of the page that the command makes.
  Json page(const std::string& line) const {
    const Ran ran = tandem(line + " --report r.html");
    EXPECT_EQ(ran.code, 0) << ran.err;
    const std::string text = read("r.html");
    constexpr std::string_view kOpen = R"(<script type="application/json" id="data">)";
    const std::size_t first = text.find(kOpen) + kOpen.size();
    return Json::parse(text.substr(first, text.find("</script>", first) - first));
  }

  static double sum(const Json& column) {
    double all = 0.0;
    for (const Json& value : column) all += value.get<double>();
    return all;
  }

  /// Frame of a variation's position, by their names; null where there is none.
  static Json frame(const Json& data, const std::string& question, const std::string& label) {
    for (const Json& asked : data["what_if"]) {
      if (asked["name"] != question) continue;
      for (const Json& at : asked["frames"]) {
        const Json& found = data["frames"][at.get<std::size_t>()];
        if (found["label"] == label) return found;
      }
    }
    return {};
  }

  static double makespan(const Json& frame) { return frame["facts"][0]["number"]; }
};

TEST_F(ReportFile, SaysWhatTheResultSays) {
  const Json data = page(kRun);
  const Json result = json_of(kRun + " --json")["result"];
  const Json& frame = data["frames"][0];
  EXPECT_EQ(makespan(frame), result["makespan_s"]);
  EXPECT_EQ(frame["length"].get<double>() / 1e9, result["makespan_s"]);
  double bubble = 0.0;
  for (const Json& device : result["devices"]) bubble += device["bubble_s"].get<double>();
  EXPECT_NEAR(sum(frame["idle"]["length"]) * 1e-9, bubble, 1e-12);
  // 4 devices of 3 batches of 8: forward, backward, a transfer on 2 lanes each way over 3 links,
  // and an update a batch.
  EXPECT_EQ(frame["boxes"]["type"].size(), 4 * 3 * 8 * 2 + 3 * 3 * 8 * 2 * 2 + 4 * 3);
  for (std::size_t device = 0; device < 4; ++device) {
    const Json& held = frame["memory"]["devices"][device];
    const Json& values = held["curve"]["value"];
    EXPECT_EQ(*std::max_element(values.begin(), values.end()),
              result["devices"][device]["peak_bytes"]);
    EXPECT_EQ(held["peak"], result["devices"][device]["peak_bytes"]);
    EXPECT_EQ(held["capacity"], 64 << 20);
  }
}

TEST_F(ReportFile, SaysTheCommandThatMadeIt) {
  EXPECT_EQ(page(kRun)["command"], "tandem " + kRun + " --report r.html");
  EXPECT_EQ(tandem({"simulate", "--schedule", "1f1b", "--devices", "2", "--microbatches", "2",
                    "--forward", "1 ms", "--backward", "1ms", "--report", "it's.html"})
                .code,
            0);
  EXPECT_THAT(read("it's.html"),
              HasSubstr(R"(--forward '1 ms' --backward 1ms --report 'it'\\''s)"));
}

TEST_F(ReportFile, EachVariationIsASimulation) {
  const Json data = page(kRun);
  const auto simulated = [&](const std::string& line) {
    return json_of(line + " --json")["result"]["makespan_s"].get<double>();
  };
  const std::string links = "Transfers and sums take";
  EXPECT_EQ(makespan(frame(data, links, "\u00d7 4")),
            simulated(with(kRun, "--transfer 100us", "--transfer 400us")));
  EXPECT_EQ(makespan(frame(data, links, "\u00d7 0")),
            simulated(with(kRun, "--transfer 100us", "--transfer 0us")));
  EXPECT_EQ(makespan(frame(data, "Microbatches a batch", "16")),
            simulated(with(kRun, "--microbatches 8", "--microbatches 16")));
  EXPECT_EQ(makespan(frame(data, "Schedule", "gpipe")),
            simulated(with(kRun, "--schedule 2bw", "--schedule gpipe")));
  EXPECT_GT(makespan(frame(data, links, "\u00d7 4")), makespan(data["frames"][0]));
  EXPECT_TRUE(frame(data, "Schedule", "no-such").is_null());
}

TEST_F(ReportFile, OfTransfersThatTakeNoTimeHasSomeThatDo) {
  const std::string line = with(kRun, "--transfer 100us ", "");
  const Json data = page(line);
  EXPECT_EQ(makespan(frame(data, "A transfer takes, of a forward", "10 %")),
            makespan(page(kRun)["frames"][0]));
}

TEST_F(ReportFile, OfAPlanAndOfAClusterHoldTheirMemory) {
  write_plan();
  for (const std::string line :
       {"simulate plan.json --batches 3 --memory 1MiB",
        "simulate --model gpt-2.2b --cluster p3.16xlarge --schedule 2bw --depth 8 --width 1 "
        "--microbatch-size 8 --recompute full --global-batch 64",
        "simulate --model gpt-2.2b --cluster p3.16xlarge --schedule zb-h1 --depth 4 --width 1 "
        "--global-batch 8",
        "simulate --model gpt-2.2b --cluster p3.16xlarge --schedule 1f1b --depth 4 --width 1 "
        "--recompute stage --global-batch 8"}) {
    const Json data = page(line), result = json_of(line + " --json")["result"];
    for (std::size_t device = 0; device < result["devices"].size(); ++device) {
      const Json& held = data["frames"][0]["memory"]["devices"][device];
      const Json& values = held["curve"]["value"];
      const double most = *std::max_element(values.begin(), values.end());
      EXPECT_EQ(held["peak"], result["devices"][device]["peak_bytes"]) << line;
      EXPECT_EQ(sum(held["bands"]) + most, held["peak"].get<double>()) << line;
    }
  }
}

TEST_F(ReportFile, HasSlidersAndAListForEverySchedule) {
  const auto questions = [&](const std::string& line) {
    std::string names;
    const Json data = page(line);
    for (const Json& question : data["what_if"]) {
      names += question["name"].get<std::string>() + (question["list"] ? " [list]; " : "; ");
      EXPECT_GT(question["frames"].size(), 1U) << line;
    }
    return names;
  };
  const std::string times = " --microbatches 8 --forward 1ms --backward 2ms --transfer 100us";
  for (const char* schedule :
       {"gpipe --devices 4", "interleaved --chunks 3 --devices 4", "zbv --devices 4",
        "chimera --devices 4", "v-half --devices 4", "pipedream --devices 4"}) {
    EXPECT_EQ(questions(std::string("simulate --schedule ") + schedule + times),
              "Transfers and sums take; Microbatches a batch; Schedule [list]; ")
        << schedule;
  }
  // Of chunks: the others have as many stages, so that the given times mean the same work.
  const Json data = page("simulate --schedule interleaved --chunks 3 --devices 4" + times);
  const Json other = frame(data, "Schedule", "looped-bfs");
  ASSERT_FALSE(other.is_null());
  EXPECT_EQ(makespan(other), json_of("simulate --schedule looped-bfs --chunks 3 --devices 4" +
                                     times + " --json")["result"]["makespan_s"]);
}

TEST_F(ReportFile, ItsCardsHaveTheMeanIdleTimeAndTheUseOfTheHardware) {
  const std::string run =
      "simulate --model gpt-2.2b --cluster p3.16xlarge --schedule 2bw --depth 8 --width 1 "
      "--microbatch-size 8 --recompute full --global-batch 64";
  const Json result = json_of(run + " --json")["result"];
  std::map<std::string, double> facts;
  const Json data = page(run);
  for (const Json& fact : data["frames"][0]["facts"]) facts[fact["name"]] = fact["number"];
  double idle = 0.0;
  for (const Json& device : result["devices"]) idle += device["bubble_s"].get<double>();
  EXPECT_NEAR(facts.at("idle, mean of devices"), idle / 8 / result["makespan_s"].get<double>(),
              1e-9);
  EXPECT_NEAR(facts.at("tokens/s"), result["tokens_per_s"], 1.0);
  EXPECT_NEAR(facts.at("MFU, of peak"), result["mfu"], 1e-6);
}

TEST_F(ReportFile, OfManyBoxesLeavesVariationsOut) {
  const Json data =
      page("simulate --schedule 1f1b --devices 4 --microbatches 1500 --forward 1ms --backward 2ms");
  std::size_t boxes = 0;
  for (const Json& frame : data["frames"]) boxes += frame["boxes"]["type"].size();
  EXPECT_GT(data["frames"].size(), 1U);
  EXPECT_LT(boxes, 220'000U);
  EXPECT_TRUE(frame(data, "Microbatches a batch", "6000").is_null());
  EXPECT_THAT(data["what_if_note"].get<std::string>(),
              ::testing::AllOf(HasSubstr("200000"), HasSubstr("30004")));
  EXPECT_EQ(page(kRun)["what_if_note"], "");
}

// The headline's rate counts work that the devices' idle time does not.
TEST_F(ReportFile, TellsIdleTimeFromTheBubbleRate) {
  const std::string line = kRun + " --update 5ms";
  const Json result = json_of(line + " --json")["result"];
  double least = 1e9;
  for (const Json& device : result["devices"])
    least = std::min(least, device["bubble_s"].get<double>() / result["makespan_s"].get<double>());
  const Json facts = page(line)["frames"][0]["facts"];
  EXPECT_EQ(facts[1]["name"], "bubble rate");
  EXPECT_EQ(facts[1]["number"], result["bubble_of_total"]);
  EXPECT_EQ(facts[2]["name"], "of it idle");
  EXPECT_NEAR(facts[2]["number"].get<double>(), least, 1e-12);
  EXPECT_GT(facts[1]["number"].get<double>(), least + 0.05);
  EXPECT_TRUE(facts[1]["share"] && facts[2]["share"]);
  EXPECT_FALSE(facts[0]["share"]);
  EXPECT_THAT(tandem(line).out, HasSubstr("recomputation"));
  EXPECT_THAT(tandem(kRun).out, ::testing::Not(HasSubstr("recomputation")));
}

TEST_F(ReportFile, ItsTableBeginsWithWhatMatters) {
  const Json table = page(kRun)["frames"][0]["table"];
  const Json first = {"device", "busy", "idle", "of the run", "peak memory", "capacity", "fits"};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(table["columns"][i], first[i]);
  EXPECT_EQ(table["rows"][0][6], "yes");
  EXPECT_EQ(page(with(kRun, "64MiB", "1MiB"))["frames"][0]["table"]["rows"][0][6], "NO");
}

// Of a run that is too large to be drawn in full the picture says what is missing.
TEST_F(ReportFile, APictureStaysUnderAMegabyte) {
  const auto picture = [&](const std::string& shape) {
    EXPECT_EQ(tandem("simulate --schedule 2bw --batches 3 --forward 1ms --backward 2ms --transfer "
                     "100us --report r.svg " +
                     shape)
                  .code,
              0);
    return read("r.svg");
  };
  const std::string large = picture("--devices 200 --microbatches 200");
  EXPECT_LT(large.size(), 1'000'000U);
  EXPECT_THAT(large, HasSubstr("Left out"));
  EXPECT_THAT(large, HasSubstr(">device 199<"));
  const std::string small = picture("--devices 4 --microbatches 8");
  EXPECT_THAT(small, ::testing::Not(HasSubstr("Left out")));
}

TEST_F(ReportFile, IsAPictureByItsName) {
  EXPECT_EQ(tandem(kRun + " --report r.svg").code, 0);
  EXPECT_THAT(read("r.svg"), StartsWith("<svg "));
  EXPECT_THAT(read("r.svg"), HasSubstr("<desc id=\"description\">tandem " + kRun));
}

// UPDATE=1 draws it anew.
TEST_F(ReportFile, OfTheReadmeIsWhatTheToolDraws) {
  const std::filesystem::path root = testing::source_folder(),
                              drawn = root / "tools/print/report.svg";
  const auto text = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const std::string readme = text(root / "README.md");
  constexpr std::string_view kEnd = " --report build/report.svg\n";
  const std::size_t end = readme.find(kEnd);
  ASSERT_NE(end, std::string::npos);
  const std::size_t first = readme.rfind("tandem simulate", end) + 7;
  const std::string shown = readme.substr(first, end - first);
  const std::string command = std::regex_replace(shown, std::regex(R"(\\\n *)"), "");
  EXPECT_EQ(tandem(command + " --report report.svg").code, 0);
  if (std::getenv("UPDATE") != nullptr)
    std::ofstream(drawn, std::ios::binary) << read("report.svg");
  EXPECT_TRUE(read("report.svg") == text(drawn)) << "UPDATE=1 draws it anew";
  EXPECT_THAT(readme, HasSubstr("](tools/print/report.svg)"));
}

TEST_F(ReportFile, IsRefusedBeforeTheWork) {
  expect_refused(kRun + " --report r.pdf", 2, "--report: ");
  expect_refused(kRun + " --report r.html --trace r.html", 2, "--trace and --report");
  expect_refused(kRun + " --report no/r.html", 1, "no/r.html: ");
  expect_refused(with(kRun, "2bw", "2bw,gpipe") + " --report r.html", 2, "--report");
  expect_refused(with(kRun, "--batches 3", "--batches 9999999") + " --report r.svg", 3, "9999999");
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(ReportFile, OnAFullDiskIsAnError) {
  for (const std::string name : {"full.html", "full.svg"}) {
    std::filesystem::create_symlink("/dev/full", folder() / name);
    const Ran ran = tandem(kRun + " --report " + name);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err, StartsWith("error: " + name + ": "));
  }
}

}  // namespace
}  // namespace tandem::testing
