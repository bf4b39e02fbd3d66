// What launchers set, as they were seen to: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Slurm 22.05,
// torchrun of PyTorch 2.

#include "executor/ranks/rank_place.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Set = std::map<std::string, std::string>;

/// What is in both; of `more` where both have it.
Set with(Set set, const Set& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

Set without(Set set, const std::string& name) {
  EXPECT_EQ(set.erase(name), 1U) << name;
  return set;
}

std::optional<RankPlace> place_in(const Set& set) {
  return find_rank_place([&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal_of(const Set& set) {
  try {
    place_in(set);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

const Set kTandem{{"TANDEM_RANK", "2"},       {"TANDEM_RANKS", "4"},
                  {"TANDEM_LOCAL_RANK", "0"}, {"TANDEM_LOCAL_RANKS", "2"},
                  {"TANDEM_RESTARTS", "1"},   {"TANDEM_RENDEZVOUS", "node1:4711"},
                  {"TANDEM_SECRET", "unused"}};
const Set kTorchrun{{"GROUP_RANK", "0"},
                    {"GROUP_WORLD_SIZE", "1"},
                    {"LOCAL_RANK", "1"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "localhost"},
                    {"MASTER_PORT", "34933"},
                    {"RANK", "1"},
                    {"ROLE_NAME", "default"},
                    {"ROLE_RANK", "1"},
                    {"ROLE_WORLD_SIZE", "2"},
                    {"TORCHELASTIC_MAX_RESTARTS", "2"},
                    {"TORCHELASTIC_RESTART_COUNT", "1"},
                    {"TORCHELASTIC_RUN_ID", "61bca35b-0abc-46a0-8ddd-6107191f4624"},
                    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                    {"WORLD_SIZE", "2"}};
const Set kOpenMpi4{{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                    {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                    {"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "2"},
                    {"OMPI_MCA_ess_base_jobid", "1126563841"},
                    {"OMPI_UNIVERSE_SIZE", "2"},
                    {"PMIX_NAMESPACE", "1126563841"},
                    {"PMIX_RANK", "1"},
                    {"PMIX_VERSION", "4.2.2rc2"}};
const Set kOpenMpi5{{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                    {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "2"},       {"OMPI_VERSION", "5.0.11"},
                    {"OMPI_WORLD_LOCAL_SIZE", "2"},      {"OMPI_WORLD_SIZE", "2"},
                    {"PMIX_NAMESPACE", "prterun-a-1@1"}, {"PMIX_RANK", "1"}};
const Set kMpich{{"HYDI_CONTROL_FD", "7"}, {"MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "a"},
                 {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"},
                 {"PMI_FD", "8"},          {"PMI_RANK", "1"},
                 {"PMI_SIZE", "2"},        {"PWD", "/work"}};
/// A script of sbatch: not a task of a step.
const Set kBatchScript{
    {"SLURM_GTIDS", "0"},          {"SLURM_JOB_ID", "2"},      {"SLURM_JOB_NODELIST", "vm"},
    {"SLURM_LOCALID", "0"},        {"SLURM_NNODES", "1"},      {"SLURM_NODEID", "0"},
    {"SLURM_NPROCS", "2"},         {"SLURM_NTASKS", "2"},      {"SLURM_PROCID", "0"},
    {"SLURM_TASKS_PER_NODE", "2"}, {"SLURM_SUBMIT_HOST", "vm"}};
const Set kSrun = with(kBatchScript, {{"SLURM_GTIDS", "0,1"},
                                      {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"},
                                      {"SLURM_LOCALID", "1"},
                                      {"SLURM_PROCID", "1"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_STEP_NODELIST", "vm"},
                                      {"SLURM_STEP_NUM_NODES", "1"},
                                      {"SLURM_STEP_NUM_TASKS", "2"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "2"}});
const Set kSrunOnNodes = with(kSrun, {{"SLURM_STEP_NODELIST", "node[09-11,7],gpu1"},
                                      {"SLURM_STEP_NUM_TASKS", "9"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1,2"},
                                      {"SLURM_NODEID", "3"},
                                      {"SLURM_LOCALID", "0"},
                                      {"SLURM_PROCID", "6"},
                                      {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}});

void expect_second_of_two_here(const Set& set, const std::string& launcher) {
  const auto place = place_in(set);
  ASSERT_TRUE(place) << launcher;
  EXPECT_EQ(place->launcher, launcher);
  EXPECT_EQ(place->rank, 1) << launcher;
  EXPECT_EQ(place->ranks, 2) << launcher;
  EXPECT_EQ(place->local_rank, 1) << launcher;
  EXPECT_EQ(place->local_ranks, 2) << launcher;
  EXPECT_EQ(place->rendezvous_host, "127.0.0.1") << launcher;
  EXPECT_GE(place->rendezvous_port, 20'000) << launcher;
  EXPECT_LT(place->rendezvous_port, 30'000) << launcher;
}

TEST(RankPlaceTest, EveryLauncherTellsIt) {
  expect_second_of_two_here(kTorchrun, "torchrun");
  expect_second_of_two_here(kOpenMpi4, "Open MPI");
  expect_second_of_two_here(kOpenMpi5, "Open MPI");
  expect_second_of_two_here(kMpich, "MPICH");
  expect_second_of_two_here(kSrun, "Slurm");
  expect_second_of_two_here(with(kSrun, {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "s.4.0"}}),
                            "Slurm");
  expect_second_of_two_here(with(kSrun, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "Slurm");
  const auto place = place_in(kTandem);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->launcher, "tandem");
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->ranks, 4);
  EXPECT_EQ(place->local_rank, 0);
  EXPECT_EQ(place->local_ranks, 2);
  EXPECT_EQ(place->rendezvous_host, "node1");
  EXPECT_EQ(place->rendezvous_port, 4711);
  EXPECT_EQ(place->restarts, 1);
}

TEST(RankPlaceTest, WhatWasStartedLastComesFirst) {
  EXPECT_EQ(place_in(with(kTorchrun, kTandem))->launcher, "tandem");
  EXPECT_EQ(place_in(with(kSrun, kTorchrun))->launcher, "torchrun");
  EXPECT_EQ(place_in(with(kSrun, kOpenMpi4))->launcher, "Open MPI");
}

TEST(RankPlaceTest, AloneIsAlone) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"RANK", "major"}}));
  EXPECT_FALSE(place_in({{"TANDEM_RANK", ""}, {"PMIX_RANK", ""}}));
  EXPECT_FALSE(place_in(kBatchScript));
}

TEST(RankPlaceTest, RestartsAreCounted) {
  EXPECT_EQ(place_in(kTorchrun)->restarts, 1);
  EXPECT_EQ(place_in(kSrun)->restarts, 0);
  EXPECT_EQ(place_in(with(kSrun, {{"SLURM_RESTART_COUNT", "3"}}))->restarts, 3);
}

TEST(RankPlaceTest, RunsAtOnceHavePortsOfTheirOwn) {
  const auto port = [](const Set& set) { return place_in(set)->rendezvous_port; };
  EXPECT_NE(port(kOpenMpi4), port(with(kOpenMpi4, {{"PMIX_NAMESPACE", "1126563842"}})));
  EXPECT_NE(port(kMpich), port(with(kMpich, {{"PWD", "/home"}})));
  EXPECT_NE(port(kSrun), port(with(kSrun, {{"SLURM_STEP_ID", "1"}})));
  EXPECT_NE(port(kSrun), port(with(kSrun, {{"SLURM_JOB_ID", "3"}})));
  EXPECT_NE(port(kTorchrun), port(with(kTorchrun, {{"MASTER_PORT", "34935"}})));
  // The same of all ranks.
  EXPECT_EQ(port(kOpenMpi4), port(with(kOpenMpi4, {{"OMPI_COMM_WORLD_RANK", "0"},
                                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                   {"PMIX_RANK", "0"}})));
}

/// The store that torchrun's agent has at MASTER_PORT is in the way; one of rank 0 is not there.
TEST(RankPlaceTest, TorchrunsStoreKeepsItsPort) {
  const Set hosts = with(kTorchrun, {{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}});
  EXPECT_EQ(place_in(hosts)->rendezvous_host, "node1");
  EXPECT_EQ(place_in(hosts)->rendezvous_port, 34'934);
  EXPECT_EQ(place_in(with(hosts, {{"MASTER_PORT", "65535"}}))->rendezvous_port, 65'534);
  EXPECT_EQ(place_in(with(hosts, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->rendezvous_port,
            34'933);
  const auto pod = place_in(
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "job-0"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(pod->rendezvous_host, "job-0");
  EXPECT_EQ(pod->rendezvous_port, 29'500);
  EXPECT_EQ(pod->local_ranks, 1);
}

TEST(RankPlaceTest, SlurmsNodesAreRead) {
  const auto place = place_in(kSrunOnNodes);
  EXPECT_EQ(place->rendezvous_host, "node09");  // not where srun was called
  EXPECT_EQ(place->local_ranks, 1);
  EXPECT_EQ(place_in(with(kSrunOnNodes, {{"SLURM_NODEID", "4"}}))->local_ranks, 2);
  const auto host = [](const std::string& nodes) {
    return place_in(with(kSrunOnNodes, {{"SLURM_STEP_NODELIST", nodes}}))->rendezvous_host;
  };
  EXPECT_EQ(host("a,b[1-2]"), "a");
  EXPECT_EQ(host("rack[2,4]n[01-16]-x,b"), "rack2n01-x");
  for (const std::string broken : {"node[1-3", ",a"})
    EXPECT_THAT(refusal_of(with(kSrunOnNodes, {{"SLURM_STEP_NODELIST", broken}})),
                HasSubstr("SLURM_STEP_NODELIST: expected hosts, such as node[1-3,7], found \"" +
                          broken + "\""));
  for (const std::string broken : {"2(x3),", "2(x3", "2(x0)", "0", "two"})
    EXPECT_THAT(refusal_of(with(kSrunOnNodes, {{"SLURM_STEP_TASKS_PER_NODE", broken}})),
                HasSubstr("found \"" + broken + "\""));
}

TEST(RankPlaceTest, AnAddressMayBeGivenUnderEachLauncher) {
  const Set given{{"TANDEM_RENDEZVOUS", "[fd00::2]:4711"}};
  const Set hosts{{"OMPI_COMM_WORLD_SIZE", "4"}};
  for (const Set& set : {kTorchrun, with(kOpenMpi4, hosts), kMpich, kSrunOnNodes}) {
    const auto place = place_in(with(set, given));
    EXPECT_EQ(place->rendezvous_host, "fd00::2") << place->launcher;
    EXPECT_EQ(place->rendezvous_port, 4711) << place->launcher;
  }
  EXPECT_EQ(refusal_of(with(kOpenMpi4, hosts)),
            "Open MPI says that 2 of 4 ranks run on this host, not where rank 0 listens: give "
            "--rendezvous HOST:PORT, or TANDEM_RENDEZVOUS in the environment");
  for (const std::string wrong : {"node1", "node1:", ":1", "fd00::2:1", "a:0", "a:65536", "a:1x"})
    EXPECT_EQ(refusal_of(with(kTandem, {{"TANDEM_RENDEZVOUS", wrong}})),
              "TANDEM_RENDEZVOUS: expected HOST:PORT, found \"" + wrong + "\"");
}

TEST(RankPlaceTest, ContradictionsAreNamed) {
  EXPECT_EQ(refusal_of(with(kTandem, {{"TANDEM_RANK", "4"}})),
            "TANDEM_RANK: expected an integer from 0 to 3, found \"4\"");
  EXPECT_EQ(refusal_of(with(kTandem, {{"TANDEM_LOCAL_RANK", "-1"}})),
            "TANDEM_LOCAL_RANK: expected an integer from 0 to 1, found \"-1\"");
  EXPECT_EQ(refusal_of(with(kTandem, {{"TANDEM_LOCAL_RANKS", "5"}})),
            "TANDEM_LOCAL_RANKS: expected an integer from 1 to 4, found \"5\"");
  EXPECT_EQ(refusal_of(without(kTandem, "TANDEM_RANKS")),
            "TANDEM_RANKS: is missing, and tandem sets it");
  EXPECT_EQ(refusal_of(without(kTandem, "TANDEM_RENDEZVOUS")),
            "TANDEM_RENDEZVOUS: is missing, and tandem sets it");
  EXPECT_EQ(refusal_of(with(kTorchrun, {{"WORLD_SIZE", "two"}})),
            "WORLD_SIZE: expected an integer from 1 to 2147483647, found \"two\"");
  EXPECT_EQ(refusal_of(without(kTorchrun, "MASTER_PORT")),
            "MASTER_PORT: is missing, and torchrun sets it");
  EXPECT_EQ(refusal_of(with(kOpenMpi5, {{"OMPI_COMM_WORLD_RANK", "2"}})),
            "OMPI_COMM_WORLD_RANK: expected an integer from 0 to 1, found \"2\"");
  EXPECT_THAT(refusal_of({{"PMIX_RANK", "0"}}), HasSubstr("how many ranks there are"));
}

}  // namespace
}  // namespace tandem
