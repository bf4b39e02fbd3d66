// What `plan` writes the other commands read: whatever names, paths and schedules it is given.

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/schedule_mutations.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlanCommand : public CommandLine {
 protected:
  void SetUp() override { write("profile.json", profile_text()); }

  static std::vector<std::string> plan(std::int64_t batch) {
    return {"plan",          "--profile",      "profile.json",        "--schedule-file",
            "mine.schedule", "--global-batch", std::to_string(batch), "--output",
            "own.json"};
  }

  /// What `tandem schedule` prints, called otherwise.
  std::string schedule_named(const std::string& line, const std::string& name) const {
    const std::string text = tandem("schedule " + line).out;
    return "# " + name + text.substr(text.find(' ', text.find(' ') + 1));
  }
};

/// Two pipelines, devices of several stages, recomputation, ops by halves.
const std::vector<std::string> kSchedules{"1f1b --devices 2 --microbatches 4",
                                          "2bw --devices 2 --microbatches 4",
                                          "gpipe --devices 2 --microbatches 4 --recompute full",
                                          "zbv --devices 2 --microbatches 4",
                                          "1f1b --devices 2 --microbatches 4 --width 2",
                                          "interleaved --devices 2 --microbatches 4 --chunks 2"};

TEST_F(PlanCommand, ByAProfileRefusesWhatOnlyClustersTake) {
  const std::string line = "plan --profile profile.json --devices 2 --global-batch 4";
  EXPECT_EQ(tandem(line).code, 0) << "without them it is a plan";
  for (const std::string option : {"objective memory", "gap 1%", "explain", "report page.html",
                                   "tensor 2", "depth 2", "width 1", "chunks 2"}) {
    const Ran ran = tandem(line + " --" + option);
    EXPECT_EQ(ran.code, 2) << option;
    EXPECT_THAT(ran.err, HasSubstr("--" + option.substr(0, option.find(' ')) +
                                   " is for a plan on a cluster"));
  }
  EXPECT_FALSE(exists("page.html"));
}

/// The lines below the one that ends with "these fit:".
std::vector<std::string> plan_offers_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row);) {
    if (row.starts_with("  ") && row.find(" on the fullest device)") != std::string::npos)
      lines.push_back(row.substr(2));
  }
  return lines;
}

/// Layers of each stage, "2+4" → [[0, 2], [2, 6]].
Json stages_of(const std::string& cut) {
  Json stages = Json::array();
  std::istringstream sizes(cut);
  int first = 0;
  for (std::string size; std::getline(sizes, size, '+');) {
    stages.push_back({first, first + std::stoi(size)});
    first += std::stoi(size);
  }
  return stages;
}

/// The plan as an offer, "4 stages, 1+2+2+1, recompute full (…)", has it.
Json followed(Json plan, const std::string& offer) {
  std::istringstream changes(offer.substr(0, offer.find(" (")));
  for (std::string one; std::getline(changes, one, ',');) {
    one.erase(0, one.find_first_not_of(' '));
    const std::string last = one.substr(one.rfind(' ') + 1);
    if (one == "another cut") continue;
    if (one.find_first_not_of("0123456789+") == std::string::npos)
      plan["stages"] = stages_of(one);
    else if (one.ends_with(" stages"))
      plan["depth"] = std::stoi(one);
    else if (one.starts_with("schedule "))
      plan["schedule"] = last;
    else if (one.starts_with("recompute "))
      plan["recompute"] = last;
    else if (one.starts_with("groups of "))
      plan["group"] = std::stoi(last);
    else if (one.starts_with("a global batch of "))
      plan["microbatches"] = std::stoi(last) / plan["microbatch_size"].get<int>();
    else
      ADD_FAILURE() << one;
  }
  plan["predicted"]["peak_bytes"] = std::vector<int>(plan["depth"].get<std::size_t>(), 0);
  return plan;
}

/// For the nearest of the plans that don't fit `plan` offers what `check` offers for that plan; and
/// each offer, written into the plan, fits in the bytes that it says.
TEST_F(PlanCommand, OffersWhatCheckOffersAndItFits) {
  std::size_t offered = 0;
  for (const std::string memory : {"150KiB", "120KiB", "90KiB"}) {
    SCOPED_TRACE(memory);
    const Ran refused = tandem(
        "plan --profile profile.json --devices 2 --global-batch 4 --schedule "
        "gpipe --memory " +
        memory);
    ASSERT_EQ(refused.code, 4) << refused.err;
    ASSERT_THAT(refused.err, HasSubstr("the nearest, gpipe, 2 stages, microbatches 1 x 4"));
    const std::vector<std::string> offers = plan_offers_in(refused.err);
    Json plan = Json::parse(plan_text());
    plan["schedule"] = "gpipe";
    plan["recompute"] =
        refused.err.find("1 x 4, recompute full") == std::string::npos ? "none" : "full";
    const std::size_t needs = refused.err.find("needs ") + 6;
    const std::string needed = refused.err.substr(needs, refused.err.find(" on device") - needs);
    std::size_t same = 0;  // cuts that are the nearest one
    for (int first = 1; first < 6; ++first) {
      plan["stages"] = {{0, first}, {first, 6}};
      write("plan.json", plan.dump());
      const Ran checked = tandem("check plan.json --memory " + memory);
      EXPECT_EQ(checked.code, 4);
      if (checked.err.find("needs " + needed + ",") == std::string::npos) continue;
      ++same;
      EXPECT_EQ(plan_offers_in(checked.err), offers);
      for (const std::string& offer : offers) {
        write("offered.json", followed(plan, offer).dump());
        const Ran fits = tandem("check offered.json --memory " + memory);
        EXPECT_EQ(fits.code, 0) << offer << fits.err;
        const std::string bytes = offer.substr(offer.rfind('(') + 1);
        EXPECT_THAT(fits.out, HasSubstr(bytes.substr(0, bytes.find(" on"))));
        ++offered;
      }
    }
    EXPECT_EQ(same, 1u);
  }
  EXPECT_GE(offered, 4u);
}

TEST_F(PlanCommand, WhatItWritesIsChecked) {
  const std::vector<std::string> names{"mine",          R"("one of mine")", R"("\"\\")",
                                       R"("\x1b[31m")", "\"\xe2\x80\xae\"", R"("")"};
  int written = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    const std::string& line = kSchedules[random() % kSchedules.size()];
    ScheduleText mutant(schedule_named(line, "mine"));
    for (std::uint64_t changes = random() % 3; changes > 0; --changes) mutant.mutate(random);
    write("mine.schedule", with(mutant.text(), "mine", names[random() % names.size()]));
    std::vector<std::string> words = plan(line.ends_with("--width 2") ? 8 : 4);
    if (random() % 3 == 0) words.insert(words.end(), {"--clip", "0.5"});
    if (random() % 3 == 0) words.insert(words.end(), {"--memory", "200KiB"});
    std::filesystem::remove(folder() / "own.json");
    const int code = tandem(words).code;
    EXPECT_THAT(code, AnyOf(0, 3, 4)) << seed << "\n" << read("mine.schedule");
    ++(code == 0 ? written : refused);
    EXPECT_EQ(exists("own.json"), code == 0) << seed;
    if (code != 0) continue;
    const Ran check = tandem("check own.json");
    EXPECT_EQ(check.code, 0) << seed << "\n" << check.err << read("mine.schedule");
    EXPECT_EQ(tandem("simulate own.json").code, 0) << seed;
  }
  EXPECT_GT(written, 10);
  EXPECT_GT(refused, 10);
}

TEST_F(PlanCommand, WhatItWritesOfNamedSchedulesIsChecked) {
  for (const char* name : {"1f1b", "2bw", "zb-2p", "zbv-auto", "v-adaptive", "data-parallel"}) {
    for (const char* options : {"", " --clip 0.5", " --memory 400KiB"}) {
      const std::string line = std::string("plan --profile profile.json --devices 2 ") +
                               "--global-batch 4 --output own.json --schedule " + name + options;
      const int code = tandem(line).code;
      EXPECT_THAT(code, AnyOf(0, 4)) << line;
      if (code == 0) {
        EXPECT_EQ(tandem("check own.json").code, 0) << line;
      }
    }
  }
}

/// The reader of plans takes names of one line alone. The control: another byte at the same place.
TEST_F(PlanCommand, ANameBeyondItsLineIsRefusedWhereItStands) {
  const std::string nul(1, '\0');
  for (const auto& [name, column] : std::vector<std::pair<std::string, int>>{{R"("a\x0ab")", 5},
                                                                             {R"("\x0d")", 4},
                                                                             {R"("ab\x00")", 6},
                                                                             {"\"a\rb\"", 5},
                                                                             {"\"" + nul + "\"", 4},
                                                                             {"a" + nul, 4}}) {
    write("mine.schedule", schedule_named(kSchedules.front(), name));
    const Ran ran = tandem(plan(4));
    EXPECT_EQ(ran.code, 3) << name << ran.err;
    EXPECT_THAT(ran.err, StartsWith("mine.schedule:1:" + std::to_string(column) + ": ")) << name;
    EXPECT_FALSE(exists("own.json"));
  }
  write("mine.schedule", schedule_named(kSchedules.front(), R"("a\x0bb")"));
  EXPECT_EQ(tandem(plan(4)).code, 0);
  EXPECT_EQ(tandem("check own.json").code, 0);
}

TEST_F(PlanCommand, APathThatNoPlanCanNameIsRefused) {
  for (const std::string profile : {"two\nlines.json", "return\r.json",
                                    "no\xff"
                                    "text.json"}) {
    write(profile, profile_text());
    std::vector<std::string> words{"plan", "--profile",      profile, "--devices",
                                   "2",    "--global-batch", "4"};
    EXPECT_EQ(tandem(words).code, 0) << "the control: no plan is to name it";
    words.insert(words.end(), {"--output", "own.json"});
    const Ran ran = tandem(words);
    EXPECT_EQ(ran.code, 2) << profile;
    EXPECT_THAT(ran.err, HasSubstr("--profile"));
    EXPECT_FALSE(exists("own.json"));
  }
  write("two\nlines.csv",
        tandem("schedule zbv --devices 2 --microbatches 4 --format pytorch-csv").out);
  std::vector<std::string> words = plan(4);
  words[4] = "two\nlines.csv";
  EXPECT_EQ(tandem(words).code, 3) << "its name would be the schedule's";
  EXPECT_FALSE(exists("own.json"));
}

TEST_F(PlanCommand, RanksBothWaysOfBackwardsAndNamesThem) {
  write("profile.json", with(profile_text(), "\"blocks\"", "\"tied\": false, \"blocks\""));
  const std::string line =
      "plan --profile profile.json --devices 2 --global-batch 4 --schedule timeprest";
  std::vector<bool> single;
  const Json answer = json_of(line + " --json");
  for (const Json& row : answer["result"]["ranked"]) {
    if (row["depth"] == 2 && row["microbatch_size"] == 1)
      single.push_back(row.contains("single_backwards"));
  }
  EXPECT_THAT(single, ElementsAre(true, false)) << "one op stalls";
  EXPECT_THAT(tandem(line + " --output best.json").out,
              AllOf(HasSubstr(" timeprest single "), HasSubstr(" timeprest  ")));
  EXPECT_EQ(tandem("simulate best.json --profile profile.json").code, 0);
  EXPECT_THAT(read("best.json"), HasSubstr("\"single_backwards\": true"));
}

/// Their product was once counted in 16 bits.
TEST_F(PlanCommand, TheDevicesOfAllPipelinesCount) {
  write("mine.schedule", with(schedule_named(kSchedules.front(), "mine"), "microbatches 4",
                              "microbatches 4 width 32769"));
  const Ran ran = tandem(plan(4));
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("65538"));
}

}  // namespace
}  // namespace tandem::testing
