// Names in files may hold what a terminal obeys: no command prints it as it is.

#include <string>
#include <vector>

#include "tests/support/production_timeline.h"
#include "tests/support/recordings.h"
#include "tests/tools/sweep.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

/// Colours and titles, a control of the second set, text turned around, and bytes that are none.
const std::string kSteering =
    "\x1b[31mred\x1b]0;title\x07\x7f\xc2\x9b"
    "2J\xe2\x80\xaeright";
const std::string kName = "tiny" + kSteering;
/// The same within JSON: half of it as escapes, which a parser undoes.
const std::string kInJson =
    "tiny\\u001b[31mred\\u001b]0;title\\u0007\x7f\xc2\x9b"
    "2J\\u202eright";
const std::string kShown = "\\u001b[31mred\\u001b]0;title\\u0007\\u007f\\u009b2J\\u202eright";

/// Whether a terminal could obey any of it, or it is not UTF-8.
bool is_safe(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7f) return false;
    if (text.compare(i, 2, "\xc2\x9b") == 0 || text.compare(i, 3, "\xe2\x80\xae") == 0)
      return false;
  }
  try {
    return !Json(text).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

class HostileNames : public CommandLine {
 protected:
  void SetUp() override {
    const std::string part = "\"tiny\"", name = "\"" + kInJson + "\"";
    write("model.json", with(kModel, part, name));
    write("profile.json", with(profile_text(), part, name));
    write("plan.json", with(plan_text(), part, name));
    write("cluster.json", R"({"version": 1, "name": ")" + kInJson + R"(",
      "devices": [{"count": 2, "memory_bytes": 1000000000, "fp32_flops": 1e12,
                   "memory_bytes_per_s": 1e11, "name": ")" +
                              kInJson + R"("}]})");
    write("broken.json", "{\"version\": 1, \"" + kName + "\xff\": }");
    write("unknown.json", with(plan_text(), "\"version\": 1,\n\"model\"",
                               "\"version\": 1, \"" + kInJson + "\": 3,\n\"model\""));
    write("order.txt", "schedule " + kName + "\n");
    write("order.csv", "0F0,0B0" + kName + "\n");
    write("timeline.json", timeline_text(recording_of({two_stages({}, 0, 0)})));
    write("events.json", R"([{"name":")" + kInJson + R"(","ph":"E","ts":0,"pid":")" + kInJson +
                             R"(","tid":1}, {"ph":"X","name":")" + kInJson + R"("}])");
    write("meta.yaml", kName + ": 3\n");
    write("rows.jsonl", "{\"" + kName + "\": 1}\n");
  }
  Strings lines() const {
    return {"check plan.json",
            "check plan.json --memory 1KiB",
            "check plan.json --json",
            "check model.json",
            "check broken.json",
            "check broken.json --json",
            "check unknown.json",
            "check order.txt",
            "check --model model.json --cluster cluster.json",
            "simulate plan.json",
            "simulate plan.json --picture",
            "simulate plan.json --json",
            "simulate plan.json --trace trace.json",
            "simulate broken.json",
            "simulate --model model.json --cluster cluster.json --schedule gpipe",
            "simulate --model model.json --cluster cluster.json --schedule gpipe --json",
            "simulate --model model.json --cluster p3.16xlarge --schedule gpipe --report r.html",
            "simulate --model model.json --cluster p3.16xlarge --schedule gpipe --report r.svg",
            "simulate --schedule-file order.txt --forward 1ms --backward 2ms",
            "simulate --schedule-file order.csv --forward 1ms --backward 2ms",
            "explain plan.json",
            "explain plan.json --json",
            "sweep plan.json,broken.json",
            "sweep plan.json broken.json --json",
            "sweep --model model.json --cluster cluster.json,p3.16xlarge --schedule gpipe "
            "--svg s.svg --csv s.csv --picture",
            "sweep merge rows.jsonl",
            "sweep plan.json --resume rows.jsonl",
            "plan --profile profile.json --devices 2 --global-batch 4",
            "plan --profile profile.json --devices 2 --global-batch 4 --output p.json",
            "plan --profile profile.json --devices 2 --global-batch 4 --memory 1KiB",
            "plan --profile profile.json --model broken.json --devices 2 --global-batch 4",
            "profile --model model.json --repetitions 1 --output q.json",
            "train plan.json --steps 1 --trace measured.json",
            "train plan.json --steps 1 --json",
            "import --from hugging-face model.json",
            "import --from megatron broken.json",
            "import --from nvidia-smi broken.json",
            "import --from pytorch-csv order.csv",
            "compare trace.json measured.json",
            "compare events.json trace.json",
            "trace check events.json",
            "trace check events.json --json",
            "trace check broken.json",
            "replay timeline.json --meta meta.yaml",
            "replay events.json",
            "schedule gpipe --devices 2 --microbatches 2",
            "calibrate broken.json --cluster cluster.json",
            "tokens broken.json --output t.txt",
            "no-such-command",
            "catalog show none"};
  }
};

TEST_F(HostileNames, AreEscapedByEveryCommand) {
  std::size_t shown = 0;
  for (const std::string& line : lines()) {
    const Ran ran = tandem(line);
    EXPECT_TRUE(is_safe(ran.out)) << line << "\n"
                                  << Json(ran.out).dump(-1, ' ', true,
                                                        Json::error_handler_t::replace);
    EXPECT_TRUE(is_safe(ran.err)) << line << "\n"
                                  << Json(ran.err).dump(-1, ' ', true,
                                                        Json::error_handler_t::replace);
    const std::string all = ran.out + ran.err;
    shown += all.find(kShown) != std::string::npos || all.find("\\u001b") != std::string::npos;
    const bool is_object = line.ends_with("--json") && ran.out.starts_with("{\n");
    EXPECT_TRUE(!is_object || Json::accept(ran.out)) << line;
  }
  EXPECT_GE(shown, 12U) << "names are told, not left out";
}

TEST_F(HostileNames, MeanTheSameInJson) {
  const std::string line =
      "simulate --model model.json --cluster p3.16xlarge --schedule gpipe --json";
  EXPECT_EQ(json_of(line)["config"]["model"], kName);
}

TEST_F(HostileNames, OfTheCommandLine) {
  for (const Strings& line :
       {Strings{kName}, Strings{"simulate", "--" + kName}, Strings{"check", kName + "\xff.json"},
        Strings{"simulate", "plan.json", "--trace", "no/" + kName},
        Strings{"plan", "--profile", "profile.json", "--devices", "2", "--global-batch", "4",
                "--output", kName + "\xff"},
        Strings{"trace", "check", kName}, Strings{"catalog", "show", kName},
        Strings{"sweep", "--schedule", kName}}) {
    const Ran ran = tandem(line);
    EXPECT_TRUE(is_safe(ran.out) && is_safe(ran.err)) << ran.out << ran.err;
    EXPECT_THAT(ran.out + ran.err, HasSubstr("\\u001b[31m"));
  }
}

TEST_F(HostileNames, AreEscapedInPictures) {
  const std::string line = "simulate --model model.json --cluster p3.16xlarge --schedule gpipe ";
  EXPECT_EQ(tandem(line + "--report r.svg").code, 0);
  EXPECT_EQ(tandem(line + "--report r.html").code, 0);
  EXPECT_TRUE(is_safe(read("r.svg")));
  EXPECT_TRUE(is_safe(read("r.html")));
  EXPECT_THAT(read("r.html"), HasSubstr("\\\\u001b[31m"));
}

/// The controls: the names are hostile, and the check sees it.
TEST_F(HostileNames, AreOnes) {
  EXPECT_FALSE(is_safe(kName));
  EXPECT_FALSE(is_safe("\xff"));
  EXPECT_TRUE(is_safe("süß\n"));
  EXPECT_EQ(Json::parse("\"" + kInJson + "\""), kName);
}

}  // namespace
}  // namespace tandem::testing
