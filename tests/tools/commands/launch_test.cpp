// tandem launch: real processes, killed at any moment; that none stays, and the right one is named.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/processes.h"
#include "tests/support/sanitizers.h"
#include "tests/tools/tandem.h"
#include "tools/cli/rank_processes.h"
#include "tools/options/rank_hosts.h"

namespace tandem::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Not;
using tools::ChildSetup;
using tools::RankProcess;
using tools::RanksEnded;

/// Processes that have `mark` in their environment, or run in that folder.
std::set<pid_t> processes_with(const std::string& mark) {
  std::set<pid_t> found;
  for (const pid_t process : all_processes()) {
    std::error_code ignored;
    const auto in = std::filesystem::read_symlink(folder_of_process(process) / "cwd", ignored);
    if (in == mark || environment_of(process).find(mark) != std::string::npos)
      found.insert(process);
  }
  return found;
}

/// Waits for at most three seconds: a killed process is there for a moment.
bool none_stays(const std::string& mark) {
  for (int i = 0; i < 300; ++i) {
    if (processes_with(mark).empty()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

class LaunchedRanks : public ::testing::Test {
 protected:
  /// A shell's script a rank.
  RanksEnded run(const std::vector<std::string>& scripts, const std::stop_token& stop = {},
                 const tools::RankPatience& patience = {400ms, 400ms}) {
    std::vector<RankProcess> ranks;
    for (const std::string& script : scripts) {
      ranks.push_back({.rank = static_cast<std::int32_t>(ranks.size()),
                       .host = "here",
                       .setup = {.command = {"sh", "-c", script},
                                 .environment = {mark_, "PATH=/usr/bin:/bin"},
                                 .output = ChildSetup::Output::taken}});
    }
    said_.clear();
    return tools::run_ranks(
        ranks, stop, [this](const std::string& line) { said_ += line + "\n"; }, patience);
  }

  const std::string mark_ = fmt::format("TANDEM_TEST_MARK=launch-{}-{}", ::getpid(),
                                        ::testing::UnitTest::GetInstance()->random_seed());
  std::string said_;
};

TEST_F(LaunchedRanks, LinesOfRanksDoNotMix) {
  const RanksEnded ended = run({"printf 'one\\ntwo'; printf three >&2", "echo four"});
  EXPECT_EQ(ended.code(), 0);
  EXPECT_FALSE(ended.failed);
  EXPECT_THAT(said_, HasSubstr("[rank 0] one\n"));
  EXPECT_THAT(said_, HasSubstr("[rank 0] twothree\n"));
  EXPECT_THAT(said_, HasSubstr("[rank 1] four\n"));
}

TEST_F(LaunchedRanks, TheFirstToFailIsNamedAndTheOthersMayEnd) {
  const RanksEnded ended = run({"sleep 0.2; exit 1", "exit 7", "exit 0"});
  EXPECT_EQ(ended.code(), 7);
  EXPECT_EQ(ended.failed, 1U);
  EXPECT_EQ(ended.ends[0].code, 1);
  EXPECT_EQ(ended.ends[2].code, 0);
  EXPECT_EQ(said_, fmt::format("error: rank 1 (host here, pid {}) ended with exit code 7\n",
                               ended.ends[1].id));
}

TEST_F(LaunchedRanks, ASignalIsNamed) {
  const RanksEnded ended = run({"sleep 0.3", "kill -9 $$"});
  EXPECT_EQ(ended.code(), 137);
  EXPECT_EQ(said_, fmt::format("error: rank 1 (host here, pid {}) was killed by signal 9 "
                               "(Killed)\n",
                               ended.ends[1].id));
}

TEST_F(LaunchedRanks, AKilledOneIsNamedThoughItIsSeenLater) {
  const RanksEnded ended = run({"exit 1", "sleep 0.1; kill -9 $$"});
  EXPECT_EQ(ended.code(), 137);
  EXPECT_THAT(said_, HasSubstr("error: rank 1 (host here, pid"));
  const RanksEnded late = run({"exit 1", "sleep 0.35; kill -9 $$"}, {}, {400ms, 400ms, 50ms});
  EXPECT_EQ(late.code(), 1) << "it is not waited for";
}

/// What only hears that another has failed ends with 1.
TEST_F(LaunchedRanks, OneWithAReasonOfItsOwnIsNamedThoughItIsSeenLater) {
  const RanksEnded ended = run({"exit 1", "sleep 0.1; exit 5", "sleep 0.1; exit 1"});
  EXPECT_EQ(ended.code(), 5);
  EXPECT_EQ(ended.failed, 1U);
  EXPECT_THAT(said_, HasSubstr("error: rank 1 (host here, pid"));
  EXPECT_EQ(run({"exit 1", "sleep 0.1; exit 1"}).failed, 0U);
}

/// Nobody else has failed: it may not even have joined the others.
TEST_F(LaunchedRanks, OneThatStandsStillIsNamedAndEndsAll) {
  const auto start = std::chrono::steady_clock::now();
  const RanksEnded ended = run({"sleep 60", "kill -STOP $$; sleep 60"}, {},
                               {.after_asking = 400ms, .for_a_stopped_one = 500ms});
  EXPECT_EQ(ended.failed, 1U);
  EXPECT_EQ(ended.code(), 1);
  EXPECT_THAT(said_, ContainsRegex("error: rank 1 \\(host here, pid [0-9]+\\) stands still: signal "
                                   "19 \\(Stopped \\(signal\\)\\) stopped it\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_TRUE(none_stays(mark_));
}

TEST_F(LaunchedRanks, OneThatGoesOnInTimeIsNoFailure) {
  const std::string pauses = "(sleep 0.3; kill -CONT $$) & kill -STOP $$; exit 0";
  const RanksEnded ended = run({"sleep 1.2", pauses}, {}, {.for_a_stopped_one = 900ms});
  EXPECT_EQ(ended.code(), 0);
  EXPECT_EQ(said_, "");
}

/// Where another has failed, who stands still does not hear of it, and is not waited for.
TEST_F(LaunchedRanks, AFailureDoesNotWaitForOneThatStandsStill) {
  const auto start = std::chrono::steady_clock::now();
  const RanksEnded ended = run({"kill -STOP $$; sleep 60", "sleep 0.2; exit 7"}, {},
                               {.after_failure = 20s, .after_asking = 400ms});
  EXPECT_EQ(ended.code(), 7);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

/// One that ends when asked, one that ignores it, one that stands still: none outlives the failure,
/// nor does what they have started.
TEST_F(LaunchedRanks, WhoDoesNotEndIsMadeTo) {
  const auto start = std::chrono::steady_clock::now();
  const RanksEnded ended = run({"exec sleep 60", "trap '' TERM; sleep 60; sleep 60",
                                "kill -STOP $$", "sleep 60 & sleep 60", "sleep 0.1; exit 1"});
  EXPECT_EQ(ended.failed, 4U);
  EXPECT_EQ(ended.ends[0].signal, SIGTERM);
  EXPECT_EQ(ended.ends[1].signal, SIGKILL);
  EXPECT_EQ(ended.ends[2].signal, SIGTERM) << "it must be woken for that";
  EXPECT_THAT(said_, HasSubstr("has not ended: it is asked to (SIGTERM)"));
  EXPECT_THAT(said_, HasSubstr("has not ended: it is killed"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_TRUE(none_stays(mark_));
}

TEST_F(LaunchedRanks, AStopIsPassedOnOnceAndWaitedFor) {
  // GCC 12 takes one on the stack for uninitialized (-Og).
  static std::stop_source stop;
  std::jthread later([] {
    std::this_thread::sleep_for(300ms);
    stop.request_stop();
  });
  const std::string counts =
      "n=0; trap 'n=$((n+1))' INT; i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i+1)); done; "
      "echo $n interrupts; exit 130";
  const RanksEnded ended =
      run({counts, "trap 'exit 130' INT; while :; do sleep 0.05; done"}, stop.get_token());
  EXPECT_TRUE(ended.interrupted);
  EXPECT_EQ(ended.code(), 130);
  EXPECT_THAT(said_, AllOf(HasSubstr("[rank 0] 1 interrupts\n"), Not(HasSubstr("error"))));
  EXPECT_TRUE(none_stays(mark_));
}

TEST_F(LaunchedRanks, AProgramThatIsNotThereIsAFailure) {
  const std::vector<RankProcess> ranks{
      {.rank = 0,
       .host = "here",
       .setup = {.command = {"/nowhere/tandem"}, .output = ChildSetup::Output::taken}}};
  EXPECT_EQ(tools::run_ranks(ranks, {}, [this](const auto& line) { said_ += line + "\n"; }).code(),
            127);
  EXPECT_THAT(said_, HasSubstr("[rank 0] error: cannot start /nowhere/tandem\n"));
}

// ---- The hosts ----

TEST(RankHosts, AreFilledInOrder) {
  const auto hosts = tools::parse_hosts("# two nodes\nnode1 slots=2\n\n node2  # one\n", "hosts");
  const auto seats = tools::seats_on(hosts, 0);
  ASSERT_EQ(seats.size(), 3U);
  EXPECT_EQ(seats[1].host, "node1");
  EXPECT_EQ(seats[1].local_rank, 1);
  EXPECT_EQ(seats[1].local_ranks, 2);
  EXPECT_EQ(seats[2].host, "node2");
  EXPECT_EQ(seats[2].local_rank, 0);
  EXPECT_EQ(tools::seats_on(hosts, 1)[0].local_ranks, 1);
  EXPECT_THROW(tools::seats_on(hosts, 4), InputError);
}

// ---- The command ----

class Launch : public CommandLine {
 protected:
  void SetUp() override {
    write_plan();
    // Plays a host: runs the script that ssh would take there, which is its own host.
    write("ssh", "#!/bin/sh\necho \"$1\" >> hosts.log\nshift\nexec sh -c \"$*\"\n");
    std::filesystem::permissions(folder() / "ssh", std::filesystem::perms::owner_all);
    write("hosts", "node1 slots=2\nnode2\n");
  }
  /// Tests run at once: rank 0 of each listens on a port of its own, below those given to anyone.
  static std::string by_ssh() {
    return fmt::format("launch --hosts hosts --ssh ./ssh --rendezvous 127.0.0.1:{} ",
                       20'000 + ::getpid() % 10'000);
  }
};

TEST_F(Launch, TrainsAsOneProcessDoes) {
  const Json alone = json_of("train plan.json --steps 4 --json");
  const Ran ran = tandem("launch -n 2 -- train plan.json --steps 4 --json");
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Json ranks = Json::parse(ran.out);
  EXPECT_EQ(ranks["result"]["losses"], alone["result"]["losses"]) << ran.err;
}

/// The first start dies at its 60th op; the second goes on from the checkpoint before. What is kept
/// at the end is, byte by byte, what one process keeps.
TEST_F(Launch, GoesOnAfterAKillToTheSameBytes) {
  ASSERT_EQ(tandem("train plan.json --steps 12 --checkpoint alone").code, 0);
  ASSERT_EQ(tandem("launch -n 2 -- train plan.json --steps 6 --checkpoint half").code, 0);
  const Ran ran = tandem(
      "launch -n 2 --restarts 1 -- train plan.json --steps 12 --resume half --checkpoint kept "
      "--inject kill:op=60");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("was killed by signal 9"));
  for (const char* file : {"model.safetensors", "state.safetensors"}) {
    const auto bytes_of = [&](const char* run) {
      std::ifstream stream(folder() / run / "step-00000012" / file, std::ios::binary);
      return std::string{std::istreambuf_iterator<char>(stream), {}};
    };
    EXPECT_GT(bytes_of("kept").size(), 100u) << ran.err;
    EXPECT_TRUE(bytes_of("kept") == bytes_of("alone")) << file;
  }
}

/// MPI's own launchers tell its ranks of one another, and the module may be absent.
TEST_F(Launch, RefusesMpiWhereItCannotBe) {
  const Ran ours = tandem("launch -n 2 -- train plan.json --transport mpi");
  EXPECT_EQ(ours.code, 2) << ours.err;
  EXPECT_THAT(ours.err, HasSubstr("for ranks that mpirun or srun has started: tandem started"));
  const Ran alone = tandem("train plan.json --transport mpi");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err,
              AllOf(HasSubstr("start them by mpirun or srun"), Not(HasSubstr("tandem launch"))));
  // A program without its module beside it.
  const auto copy = folder() / "bin" / "tandem";
  std::filesystem::create_directories(copy.parent_path());
  std::filesystem::copy_file(TANDEM_BINARY, copy);
  RunOptions options;
  options.folder = folder();
  const Ran absent =
      run_command({"/usr/bin/env", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2",
                   "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2", copy.string(),
                   "train", "plan.json", "--transport", "mpi"},
                  options);
  EXPECT_EQ(absent.code, 5) << absent.err;
  EXPECT_THAT(absent.err, AllOf(HasSubstr("--transport mpi: this build has no code for it"),
                                HasSubstr("use --transport tcp")));
}

/// Several ranks on GPUs send by NCCL; what that lacks is told where it is looked for, which is
/// after the options.
TEST_F(Launch, TakesGpusByNcclAlone) {
  const Ran alone = tandem("launch -n 2 -- train plan.json --backend cuda");
  EXPECT_EQ(alone.code, 2) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("several ranks with --backend cuda need --transport nccl"));
  const Ran peer = tandem("launch -n 2 -- train plan.json --backend cuda --transport peer");
  EXPECT_EQ(peer.code, 2) << peer.err;
  EXPECT_THAT(peer.err, HasSubstr("--transport peer is within a process: several ranks with "
                                  "--backend cuda need --transport nccl"));
  const Ran threads = tandem("launch -n 2 -- train plan.json --transport threads");
  EXPECT_EQ(threads.code, 2) << threads.err;
  EXPECT_THAT(threads.err,
              HasSubstr("several ranks with --backend cpu need --transport tcp or mpi"));
  const Ran nccl = tandem("launch -n 2 -- train plan.json --backend cuda --transport nccl");
  if (nccl.code != 0) {
    EXPECT_EQ(nccl.code, 5) << nccl.err;
  }
}

std::set<std::string> folders_of_copies() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().filename().string().starts_with("tandem-copies-"))
      found.insert(entry.path().string());
  }
  return found;
}

/// Of those there now. Other tests' are there for a while.
bool no_copies_stay_but(const std::set<std::string>& before) {
  for (int i = 0; i < 3'000; ++i) {
    if (std::ranges::includes(before, folders_of_copies())) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

/// Until its end the run has nothing on the disk that it could go on from.
TEST_F(Launch, GoesOnFromMemoryToTheSameBytes) {
  ASSERT_EQ(tandem("train plan.json --steps 12 --checkpoint alone").code, 0);
  const std::set<std::string> before = folders_of_copies();
  const std::string train =
      "launch -n 2 --restarts 1 -- train plan.json --steps 12 --inject kill:op=60 --checkpoint ";
  const Ran ran = tandem(train + "kept --buddy");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(ran.err, ContainsRegex("note: goes on from step [1-9][0-9]?, which is in memory"));
  EXPECT_TRUE(no_copies_stay_but(before));
  for (const char* file : {"model.safetensors", "state.safetensors"}) {
    const std::string kept = read(fmt::format("kept/step-00000012/{}", file));
    EXPECT_GT(kept.size(), 100u);
    EXPECT_TRUE(kept == read(fmt::format("alone/step-00000012/{}", file))) << file;
  }
  const Ran anew = tandem(train + "anew");
  EXPECT_THAT(anew.err, Not(HasSubstr("goes on"))) << "without copies there is nothing";
}

TEST_F(Launch, CopiesAreForRanksThatItStarts) {
  const Ran alone = tandem("train plan.json --buddy");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("tandem launch --restarts N"));
}

/// Of two hosts one comes back without its memory: its neighbour has what it needs. Both: nobody.
TEST_F(Launch, GoesOnFromANeighboursMemoryToTheSameBytes) {
  ASSERT_EQ(tandem("train plan.json --steps 12 --checkpoint alone").code, 0);
  const std::set<std::string> before = folders_of_copies();
  write("hosts", "node1\nnode2\n");
  const auto lose_memory_of = [this](const std::string& hosts) {
    write(
        "ssh",
        fmt::format("#!/bin/sh\nhost=$1\nshift\n"
                    "if [ -e again-$host ]; then case $host in {})\n"
                    "rm -rf $(echo \"$*\" | grep -o '/dev/shm/tandem-copies-[A-Za-z0-9]*-[01]');;\n"
                    "esac; fi\ntouch again-$host\nexec sh -c \"$*\"\n",
                    hosts));
    for (const char* host : {"again-node1", "again-node2"})
      std::filesystem::remove(folder() / host);
  };
  const std::string train =
      by_ssh() +
      "--restarts 1 -- train plan.json --steps 12 --buddy --inject kill:op=60 --checkpoint ";
  lose_memory_of("node2");
  const Ran ran = tandem(train + "kept");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, ContainsRegex("note: goes on from step [1-9][0-9]?, which is in memory"));
  EXPECT_TRUE(no_copies_stay_but(before)) << "on any host";
  for (const char* file : {"model.safetensors", "state.safetensors"}) {
    EXPECT_TRUE(read(fmt::format("kept/step-00000012/{}", file)) ==
                read(fmt::format("alone/step-00000012/{}", file)))
        << file;
  }
  lose_memory_of("node1|node2");
  const Ran anew = tandem(train + "anew");
  EXPECT_EQ(anew.code, 0) << anew.err;
  EXPECT_THAT(anew.err, Not(HasSubstr("goes on")));
}

/// A host that is lost for good: what its stages need is on its neighbour, and goes to a spare one.
TEST_F(Launch, GoesOnWithASpareHostWhereOneIsNotReached) {
  ASSERT_EQ(tandem("train plan.json --steps 12 --checkpoint alone").code, 0);
  write("hosts", "node1\nnode2\nnode3\n");
  write("ssh",
        "#!/bin/sh\nhost=$1\nshift\nif [ $host = node2 ] && [ -e lost ]; then exit 255; fi\n"
        "if [ $host = node2 ]; then touch lost; fi\nexec sh -c \"$*\"\n");
  const Ran ran = tandem(by_ssh() +
                         "-n 2 --restarts 2 -- train plan.json --steps 12 --buddy "
                         "--inject kill:op=60 --checkpoint kept");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("note: left out, as ssh does not reach it: node2\n"),
                             ContainsRegex("note: goes on from step [1-9][0-9]?, which is in")));
  EXPECT_TRUE(read("kept/step-00000012/state.safetensors") ==
              read("alone/step-00000012/state.safetensors"));
  for (const std::string& left : folders_of_copies())  // nobody reaches it
    if (ran.err.find(left + " may be left") != std::string::npos) std::filesystem::remove_all(left);
}

TEST_F(Launch, TakesItsLineWithAndWithoutDashes) {
  for (const char* line :
       {"launch -n 2 -- version --json", "launch --processes 2 version --json"}) {
    const Ran ran = tandem(line);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(Json::parse(ran.out)["command"], "version") << line;
    EXPECT_THAT(ran.err, ContainsRegex("\\[rank 1\\] .*\"command\": \"version\"")) << line;
  }
}

TEST_F(Launch, AFailureOfTheInputIsNotRepeated) {
  const Ran ran = tandem("launch -n 2 --restarts 3 -- check nowhere.json");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, AllOf(ContainsRegex("rank [01] \\(host .*\\) ended with exit code 3\n"),
                             Not(HasSubstr("started again"))));
}

TEST_F(Launch, SaysInJsonHowRanksEnded) {
  const auto result = [this](const std::string& line, int code) {
    const Ran ran = tandem("launch -n 2 --json -- " + line);
    EXPECT_EQ(ran.code, code) << ran.err;
    const Json json = Json::parse(ran.out);
    EXPECT_EQ(schema_faults(json), "") << line;
    return json["result"];
  };
  const Json good = result("version", 0), bad = result("check nowhere.json", 3);
  EXPECT_EQ(good["first_failed"], nullptr);
  EXPECT_EQ(good["ranks"].size(), 2U);
  EXPECT_EQ(bad["exit_code"], 3);
  EXPECT_EQ(bad["ranks"][bad["first_failed"].get<std::size_t>()]["exit_code"], 3);
}

TEST_F(Launch, RanksElsewhereHaveTheSecretByStdin) {
  write("secret", "nobody knows this line\n");
  std::filesystem::permissions(folder() / "secret", std::filesystem::perms::owner_read);
  write("ssh", "#!/bin/sh\necho \"$@\" >> hosts.log\nshift\nexec sh -c \"$*\"\n");
  const Ran ran = tandem(by_ssh() + "--secret-file secret -- version");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("tandem "));
  EXPECT_THAT(ran.err, AllOf(HasSubstr("[rank 1] tandem "), HasSubstr("[rank 2] tandem ")));
  const std::string calls = read("hosts.log");
  EXPECT_THAT(calls, AllOf(HasSubstr("node1 exec sh"), HasSubstr("node2 exec sh"),
                           HasSubstr("TANDEM_RANK=2"), Not(HasSubstr("nobody knows"))));
}

TEST_F(Launch, ARankElsewhereThatFailsIsStartedAgain) {
  // The second start finds the file.
  write("ssh",
        "#!/bin/sh\nif [ \"$1\" = node2 ] && ! [ -e again ]; then touch again; exit 1; fi\n"
        "shift\nexec sh -c \"$*\"\n");
  const Ran ran = tandem(by_ssh() + "--restarts 1 -- version");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, ContainsRegex("error: rank 2 \\(host node2, pid [0-9]+\\) ended with exit "
                                     "code 1\n"));
  EXPECT_THAT(ran.err, HasSubstr("note: all ranks are started again (1 of 1)\n"));
}

/// A rank failed when all was done: the second start finds nothing more to train.
TEST_F(Launch, ARunThatHasAllItsStepsIsAtItsEnd) {
  write("ssh",
        "#!/bin/sh\nshift\nsh -c \"$*\" || exit\n"
        "if ! [ -e again ]; then touch again; exit 1; fi\n");
  const std::string train = " -- train plan.json --steps 2 --checkpoint kept";
  const Ran ran = tandem(by_ssh() + "-n 2 --restarts 1" + train);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("note: all ranks are started again (1 of 1)\n"));
  EXPECT_THAT(ran.err, HasSubstr("note: all 2 steps are trained: kept/step-00000002\n"));
  const Ran anew = tandem("launch -n 2" + train);  // no restart: a mistake, as ever
  EXPECT_NE(anew.code, 0) << anew.err;
}

constexpr std::string_view kLong = "-- train plan.json --steps 100000000";

/// When it is killed itself, at any moment, its ranks are, here and elsewhere.
TEST_F(Launch, NoRankOutlivesIt) {
  std::mt19937 random(1);
  const int times = kSanitized ? 2 : 8;
  for (int i = 0; i < times; ++i) {
    const auto when = std::chrono::steady_clock::now() + std::chrono::milliseconds(random() % 400);
    RunOptions options;
    options.signal = SIGKILL;
    options.interrupt_when = [&](const Ran&) { return std::chrono::steady_clock::now() > when; };
    const std::string line = i % 2 == 0 ? "launch -n 2 " : by_ssh() + "-n 2 ";
    EXPECT_EQ(tandem(line + std::string(kLong), options).code, 137);
    EXPECT_TRUE(none_stays(folder().string())) << line;
  }
}

TEST_F(Launch, CtrlCEndsAllInGoodOrder) {
  for (const std::string& line : {std::string("launch -n 2 "), by_ssh() + "-n 2 "}) {
    RunOptions options;
    const auto start = std::chrono::steady_clock::now();
    options.interrupt_when = [start](const Ran&) {
      return std::chrono::steady_clock::now() - start > 1500ms;
    };
    const Ran ran = tandem(line + std::string(kLong), options);
    EXPECT_EQ(ran.code, 130) << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("has not ended"))) << line;
    EXPECT_TRUE(none_stays(folder().string())) << line;
  }
}

TEST_F(Launch, LinksOfRanksAreMeasuredForASimulation) {
  const Json measured = json_of("launch -n 2 -- profile --ranks --output links.json --json");
  const Json ways = measured["result"]["links"];
  ASSERT_EQ(ways.size(), 2U);
  const double rate = std::min(ways[0]["bytes_per_s_busy"].get<double>(),
                               ways[1]["bytes_per_s_busy"].get<double>());
  EXPECT_EQ(measured["result"]["cluster"]["groups"][0]["links"][0]["bytes_per_s_one_way"], rate);
  const double here = json_of("simulate plan.json --json")["result"]["period_s"];
  const auto period_at = [&](double bytes_per_s) {
    Json cluster = measured["result"]["cluster"];
    cluster["groups"][0]["links"][0]["bytes_per_s_one_way"] = bytes_per_s;
    write("links.json", cluster.dump());
    const Json said = json_of("simulate plan.json --cluster links.json --json");
    EXPECT_EQ(said["config"]["cluster"], "2 ranks on 1 host");
    return said["result"]["period_s"].get<double>();
  };
  EXPECT_GT(period_at(1e4), 2 * here) << "slow links";
  EXPECT_LT(period_at(1e12), period_at(1e4));
  EXPECT_THAT(tandem("profile --ranks --output links.json").err,
              HasSubstr("--ranks is for several ranks"));
  EXPECT_THAT(tandem("simulate plan.json --cluster links.json --depth 2").err,
              HasSubstr("--depth is not taken: the plan sets it"));
}

/// A rank that is stopped at any moment, before it has joined the others too: all ends within 5 s.
TEST_F(Launch, AStoppedRankIsNamedWithinFiveSeconds) {
  std::mt19937 random(3);
  const int times = kSanitized ? 1 : 4;
  for (int i = 0; i < times; ++i) {
    pid_t victim = 0;
    std::chrono::steady_clock::time_point stopped;
    const auto when =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(i == 0 ? 0 : random() % 1500);
    RunOptions options;
    options.signal = 0;
    options.interrupt_when = [&](const Ran&) {
      if (victim != 0 || std::chrono::steady_clock::now() < when) return false;
      for (const pid_t id : processes_with("TANDEM_RANK=1")) {
        if (processes_with(folder().string()).contains(id)) victim = id;
      }
      stopped = std::chrono::steady_clock::now();
      if (victim != 0) ::kill(victim, SIGSTOP);
      return false;
    };
    const Ran ran = tandem("launch -n 2 " + std::string(kLong), options);
    const auto passed = std::chrono::steady_clock::now() - stopped;
    EXPECT_EQ(ran.code, 1) << ran.err;
    EXPECT_THAT(ran.err,
                ContainsRegex(fmt::format("rank 1 \\(host .*(process|pid) {}\\)", victim)));
    EXPECT_LT(passed, kSanitized ? 20s : 5s) << ran.err;
    EXPECT_TRUE(none_stays(folder().string()));
  }
}

/// Ranks of a real run, one of them killed or stopped.
TEST_F(Launch, AKilledRankIsNamedAndNobodyStays) {
  std::mt19937 random(2);
  const int times = kSanitized ? 1 : 4;
  for (int i = 0; i < times; ++i) {
    pid_t victim = 0;
    const auto when =
        std::chrono::steady_clock::now() + 500ms + std::chrono::milliseconds(random() % 500);
    RunOptions options;
    options.signal = 0;
    options.interrupt_when = [&](const Ran&) {
      if (victim != 0 || std::chrono::steady_clock::now() < when) return false;
      for (const pid_t id : processes_with("TANDEM_RANK=1")) {
        if (processes_with(folder().string()).contains(id)) victim = id;
      }
      if (victim != 0) ::kill(victim, SIGKILL);
      return false;
    };
    const Ran ran = tandem("launch -n 2 " + std::string(kLong), options);
    EXPECT_EQ(ran.code, 137) << ran.err;
    EXPECT_THAT(ran.err, ContainsRegex(fmt::format("error: rank 1 \\(host .*, pid {}\\) was killed "
                                                   "by signal 9 \\(Killed\\)",
                                                   victim)));
    EXPECT_TRUE(none_stays(folder().string()));
  }
}

}  // namespace
}  // namespace tandem::testing
