// Who else used the processors: read from texts as Linux writes them, and from this machine.

#include "tools/cli/processor_use.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace tandem::tools {
namespace {

constexpr const char* kMachine =
    "cpu  100 20 30 4000 50 6 7 80 9 1\ncpu0 50 10 15 2000 25 3 3 40 4 0\n";
constexpr const char* kProcess =
    "42 (a (name) with) S 1 42 42 0 -1 4194560 500 0 0 0 61 12 0 0 20 0 1 0 100 0 0\n";

TEST(ProcessorTicks, AreReadFromLinuxFiles) {
  const ProcessorTicks ticks = parse_processor_ticks(kMachine, kProcess);
  EXPECT_EQ(ticks.busy, 100 + 20 + 30 + 6 + 7);
  EXPECT_EQ(ticks.stolen, 80);
  EXPECT_EQ(ticks.own, 61 + 12);
}

TEST(ProcessorTicks, AreZeroWhereTheTextIsAnother) {
  for (const auto& [machine, process] :
       {std::pair{"", kProcess}, {"cpu 1 2", kProcess}, {kMachine, ""}, {kMachine, "42 (a) S"}}) {
    const ProcessorTicks ticks = parse_processor_ticks(machine, process);
    EXPECT_EQ(ticks.own, 0);
  }
}

TEST(PeakResidentMemory, IsWhatThisProcessHeld) {
  const Bytes before = peak_resident_memory();
  const std::vector<char> held(64 << 20, 1);
  EXPECT_GE(peak_resident_memory(), before + (32 << 20)) << held.size();
}

}  // namespace
}  // namespace tandem::tools
