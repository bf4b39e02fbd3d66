// tandem sweep: its files go on after a cut, and shards make the whole.

#include <algorithm>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/tools/sweep.h"

namespace tandem::testing {
namespace {

using Strings = std::vector<std::string>;

class SweepFiles : public SweepCommand {
 protected:
  std::string whole() const {
    const Ran ran = tandem(kPlain + " --json-lines whole.jsonl");
    EXPECT_EQ(ran.code, 0) << ran.err;
    return read("whole.jsonl");
  }

  /// The same command with variables of the environment.
  Ran with_environment(Strings variables, const std::string& line) const {
    Strings words{"/usr/bin/env"};
    words.insert(words.end(), variables.begin(), variables.end());
    words.emplace_back(TANDEM_BINARY);
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      words.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    RunOptions options;
    options.folder = folder();
    return run_command(words, options);
  }
};

/// The bytes of the first lines.
std::size_t end_of_line(const std::string& text, int lines) {
  std::size_t at = 0;
  for (int i = 0; i < lines; ++i) at = text.find('\n', at) + 1;
  return at;
}

TEST_F(SweepFiles, ACutFileIsResumedAndNothingIsDoneTwice) {
  const std::string all = whole();
  // What stands there is kept as it is: were it computed again, this would be gone.
  const std::string marked =
      with(all.substr(0, end_of_line(all, 3)), "\"microbatch_size\":1", "\"microbatch_size\":7");
  const std::string rest = all.substr(end_of_line(all, 3));
  for (const std::size_t half :
       {std::size_t{0}, std::size_t{1}, rest.find('\n') / 2, rest.find('\n')}) {
    write("rows.jsonl", marked + rest.substr(0, half));
    const Ran ran = tandem(kPlain + " --resume rows.jsonl");
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(read("rows.jsonl"), marked + rest) << half;
    EXPECT_THAT(ran.out, StartsWith("8 configurations: "));
  }
}

TEST_F(SweepFiles, ResumingBeginsWhereThereIsNoFileAndEndsWhereAllIsDone) {
  const std::string all = whole();
  const Ran first = tandem(kPlain + " --resume rows.jsonl --json");
  EXPECT_EQ(read("rows.jsonl"), all);
  EXPECT_EQ(first.out, all);
  const Ran again = tandem(kPlain + " --resume rows.jsonl --json");
  EXPECT_EQ(again.out, all);
  EXPECT_EQ(read("rows.jsonl"), all);
  write("half.jsonl", all.substr(0, 10));
  EXPECT_EQ(tandem(kPlain + " --resume half.jsonl").code, 0);
  EXPECT_EQ(read("half.jsonl"), all);
}

TEST_F(SweepFiles, ResumingRefusesWhatIsNotOfThisSweep) {
  const std::string all = whole();
  const auto refused = [&](const std::string& line, const std::string& place) {
    const Ran ran = tandem(line + " --resume whole.jsonl");
    EXPECT_EQ(ran.code, 3) << line;
    EXPECT_THAT(ran.err, StartsWith(place)) << line;
    EXPECT_EQ(ran.out, "");
  };
  refused(kPlain + " --batches 2", "whole.jsonl:1:1: ");
  refused(kPlain + " --shard 2/2", "whole.jsonl:1:1: ");
  EXPECT_EQ(read("whole.jsonl"), all);
  write("whole.jsonl", all + all.substr(0, end_of_line(all, 1)));
  refused(kPlain, "whole.jsonl:9:1: ");
  write("whole.jsonl", all.substr(0, end_of_line(all, 1)) + "{}\n");
  refused(kPlain, "whole.jsonl:2:1: ");
  write("whole.jsonl", "no sweep\n");
  refused(kPlain, "whole.jsonl:1:1: ");
}

TEST_F(SweepFiles, ANulHidesNothing) {
  const std::string all = whole();
  write("rows.jsonl", with(all, "}\n", std::string("}\0{}", 4) + "\n"));
  for (const std::string& line :
       {kPlain + " --resume rows.jsonl", std::string("sweep merge rows.jsonl")}) {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 3);
    EXPECT_THAT(ran.err, StartsWith(fmt::format("rows.jsonl:1:{}: ", all.find('\n') + 1)));
  }
}

/// What follows the last newline is cut off, and goes: of a file of something else that is all of
/// it.
TEST_F(SweepFiles, ResumingKeepsAFileOfSomethingElse) {
  for (const char* text : {"my notes", "{", "{\"schema_version\":1,\"command\":\"simulate\""}) {
    write("notes.txt", text);
    const Ran ran = tandem(kPlain + " --resume notes.txt");
    const bool beginning = std::string(text) == "{";
    EXPECT_EQ(ran.code, beginning ? 0 : 3) << text;
    if (beginning) continue;
    EXPECT_THAT(ran.err, StartsWith("notes.txt:1:1: "));
    EXPECT_EQ(read("notes.txt"), text);
  }
}

TEST_F(SweepFiles, AFileIsOfOneSweepAtATime) {
  const std::string all = whole();
  for (const char* option : {" --resume ", " --json-lines "}) {
    const int other = ::open((folder() / "whole.jsonl").c_str(), O_WRONLY);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    expect_refused(kPlain + option + "whole.jsonl", 1, "whole.jsonl: ");
    EXPECT_EQ(read("whole.jsonl"), all);
    ::close(other);
  }
  EXPECT_EQ(tandem(kPlain + " --json-lines whole.jsonl").code, 0);
  EXPECT_EQ(read("whole.jsonl"), all);
}

TEST_F(SweepFiles, LinesOfAbsurdNumbersAreRefused) {
  const std::string all = whole();
  const auto refused = [&](const std::string& part, const std::string& instead,
                           const std::string& found) {
    write("bad.jsonl", with(all, part, instead));
    for (const std::string& line :
         {std::string("sweep merge bad.jsonl"), kPlain + " --resume bad.jsonl"}) {
      const Ran ran = tandem(line);
      EXPECT_EQ(ran.code, 3) << line;
      EXPECT_THAT(ran.err, StartsWith("bad.jsonl:1:1: ")) << line;
      EXPECT_THAT(ran.err, HasSubstr(found)) << line;
    }
  };
  const std::string size = "\"configurations\":8";
  refused(size, "\"configurations\":100000000000000", "100000000000000");
  refused(size, "\"configurations\":-8", "configurations: ");
  refused(size, "\"configurations\":8.5", "configurations: ");
  refused("\"index\":0", "\"index\":0.5", "index: ");
  refused("\"schema_version\":1", "\"schema_version\":2", "version 2");
  refused("\"index\":0", "\"indez\":0", "'index'");
}

TEST_F(SweepFiles, AnInputFileOfOtherContentIsAnotherSweep) {
  const std::string model =
      R"({"version": 1, "name": "m", "blocks": 2, "width": 64, "heads": 2, "sequence": 32})";
  const std::string line =
      "sweep --model model.json --cluster p3.16xlarge,p3dn.24xlarge --schedule data-parallel "
      "--resume "
      "rows.jsonl";
  write("model.json", model);
  EXPECT_EQ(tandem(line).code, 0);
  EXPECT_EQ(tandem(line).code, 0);
  write("model.json", with(model, "64", "32"));
  EXPECT_EQ(tandem(line).code, 3);
}

TEST_F(SweepFiles, InterruptedItKeepsWhatWasDone) {
  const std::string line =
      "sweep --schedule zbv,1f1b --devices 16 --microbatches 200..900+5 --forward 1ms --backward "
      "2ms";
  RunOptions options;
  options.interrupt_when = [this](const Ran&) {
    const std::string rows = exists("rows.jsonl") ? read("rows.jsonl") : "";
    return std::count(rows.begin(), rows.end(), '\n') >= 2;
  };
  const Ran cut = tandem(line + " --json-lines rows.jsonl", options);
  EXPECT_EQ(cut.code, 130);
  EXPECT_THAT(cut.err, ::testing::ContainsRegex("interrupted .*282.*--resume rows.jsonl"));
  EXPECT_THAT(cut.out, HasSubstr(" of 282 configurations: "));
  const std::string done = read("rows.jsonl");
  EXPECT_THAT(done, ::testing::EndsWith("\n"));
  EXPECT_GE(lines_of(done).size(), 2u);
  EXPECT_LT(lines_of(done).size(), 282u);
  // In their order; one that was left while a later one ended is missing, and --resume computes it.
  std::int64_t before = -1;
  for (const Json& row : lines_of(done)) {
    EXPECT_GT(row["index"].get<std::int64_t>(), before);
    before = row["index"].get<std::int64_t>();
  }
}

TEST_F(SweepFiles, ShardsMergedAreTheWhole) {
  const std::string all = whole();
  const Ran one = tandem(kPlain + " --csv whole.csv");
  for (const std::string shard : {"1/3", "2/3", "3/3"})
    EXPECT_EQ(tandem(kPlain + " --json-lines part-{shard}.jsonl --shard " + shard).code, 0);
  EXPECT_EQ(files(),
            (Strings{"part-1.jsonl", "part-2.jsonl", "part-3.jsonl", "whole.csv", "whole.jsonl"}));
  const Ran merged = tandem(
      "sweep merge part-3.jsonl part-1.jsonl part-2.jsonl --json-lines merged.jsonl --csv "
      "merged.csv");
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_EQ(merged.out, one.out);
  EXPECT_EQ(read("merged.jsonl"), all);
  EXPECT_EQ(read("merged.csv"), read("whole.csv"));
  EXPECT_EQ(tandem("sweep merge part-3.jsonl part-1.jsonl part-2.jsonl --json").out, all);
}

TEST_F(SweepFiles, MergeRefusesWhatIsNotOneWhole) {
  const std::string all = whole();
  const std::size_t middle = end_of_line(all, 4);
  write("a.jsonl", all.substr(0, middle));
  write("b.jsonl", all.substr(middle));
  EXPECT_EQ(tandem("sweep merge b.jsonl a.jsonl").code, 0);
  expect_refused("sweep merge a.jsonl", 3, "4, 5, 6, 7");
  const Ran twice = tandem("sweep merge a.jsonl b.jsonl a.jsonl");
  EXPECT_EQ(twice.code, 3);
  EXPECT_THAT(twice.err, StartsWith("a.jsonl:1:1: "));
  write("cut.jsonl", all.substr(middle, all.size() - middle - 20));
  expect_refused("sweep merge a.jsonl cut.jsonl", 3, "cut.jsonl: ");
  EXPECT_EQ(tandem(kPlain + " --batches 2 --json-lines other.jsonl --shard 2/2").code, 0);
  const Ran others = tandem("sweep merge a.jsonl other.jsonl");
  EXPECT_EQ(others.code, 3);
  EXPECT_THAT(others.err, StartsWith("other.jsonl:1:1: "));
  EXPECT_EQ(tandem("sweep merge none.jsonl").code, 3);
  EXPECT_EQ(tandem("sweep merge").code, 2);
  write("empty.jsonl", "");
}

TEST_F(SweepFiles, ShardsAreNumberedFromOne) {
  expect_refused(kPlain + " --shard 5/4", 2, "--shard: ");
  // More shards than configurations: an empty one is a shard.
  EXPECT_EQ(tandem(kPlain + " --shard 9/9 --json-lines nine.jsonl").code, 0);
  EXPECT_EQ(read("nine.jsonl"), "");
  EXPECT_EQ(tandem(kPlain + " --shard 4/4 --json").out,
            tandem(kPlain + " --shard 4/4 --json --threads 1").out);
}

// Rank 0 gives out what all have computed as if it were alone: the table, rows, pictures.
TEST_F(SweepFiles, RanksMakeTheWhole) {
  const Ran alone = tandem(kPlain + " --json-lines alone.jsonl --csv alone.csv");
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const char* ranks : {"1", "3", "20"}) {
    const std::string launch = std::string("launch -n ") + ranks + " -- ";
    const Ran ran = tandem(launch + kPlain + " --shard ranks --json-lines all.jsonl --csv all.csv");
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.out, alone.out);
    EXPECT_EQ(read("all.jsonl"), read("alone.jsonl"));
    EXPECT_EQ(read("all.csv"), read("alone.csv"));
  }
  EXPECT_EQ(tandem("launch -n 2 -- " + kPlain + " --shard ranks --json").out, read("alone.jsonl"));
  EXPECT_EQ(tandem("launch -n 2 -- " + kPlain + " --shard ranks --resume alone.jsonl").code, 2);
  EXPECT_EQ(tandem(kPlain + " --rendezvous 127.0.0.1:4000").code, 2);
}

TEST_F(SweepFiles, TheEnvironmentNumbersTheShard) {
  const Strings array{"SLURM_ARRAY_TASK_ID=5", "SLURM_ARRAY_TASK_MIN=3", "SLURM_ARRAY_TASK_MAX=9",
                      "SLURM_ARRAY_TASK_COUNT=4", "SLURM_ARRAY_TASK_STEP=2"};
  const std::string second = tandem(kPlain + " --shard 2/4 --json").out;
  EXPECT_EQ(lines_of(second).size(), 2u);
  EXPECT_EQ(with_environment(array, kPlain + " --shard slurm --json").out, second);
  EXPECT_EQ(with_environment({"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=4"},
                             kPlain + " --shard slurm --json")
                .out,
            second);
  EXPECT_EQ(with_environment({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4"},
                             kPlain + " --shard mpi --json")
                .out,
            second);
  EXPECT_EQ(with_environment({"PMI_RANK=1", "PMI_SIZE=4"}, kPlain + " --shard mpi --json").out,
            second);
  EXPECT_EQ(with_environment({"HQ_TASK_ID=2"}, kPlain + " --shard hq/4 --json").out, second);
  EXPECT_EQ(with_environment({"HQ_TASK_ID=5"}, kPlain + " --shard hq/4").code, 5);
  EXPECT_EQ(with_environment({"-u", "HQ_TASK_ID"}, kPlain + " --shard hq/4").code, 5);
  EXPECT_EQ(with_environment({"HQ_TASK_ID=2"}, kPlain + " --shard hq/4 --csv all.csv").code, 2);
  const Strings none{"-u", "SLURM_ARRAY_TASK_ID",  "-u", "SLURM_STEP_NUM_TASKS",
                     "-u", "OMPI_COMM_WORLD_RANK", "-u", "PMI_RANK",
                     "-u", "MV2_COMM_WORLD_RANK"};
  for (const std::string launcher : {"slurm", "mpi"}) {
    const Ran ran = with_environment(none, kPlain + " --shard " + launcher);
    EXPECT_EQ(ran.code, 5);
    EXPECT_THAT(ran.err, HasSubstr("--shard " + launcher + ": "));
  }
  const Ran gaps = with_environment({"SLURM_ARRAY_TASK_ID=5", "SLURM_ARRAY_TASK_MIN=1",
                                     "SLURM_ARRAY_TASK_MAX=9", "SLURM_ARRAY_TASK_COUNT=3"},
                                    kPlain + " --shard slurm");
  EXPECT_EQ(gaps.code, 5);
  const Ran one_file = with_environment({"PMI_RANK=1", "PMI_SIZE=4"},
                                        kPlain + " --shard mpi --json-lines all.jsonl");
  EXPECT_EQ(one_file.code, 2);
  EXPECT_THAT(one_file.err, HasSubstr("--json-lines"));
}

}  // namespace
}  // namespace tandem::testing
