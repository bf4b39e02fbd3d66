// Ranges that profilers see, by a profiler of a few lines, which is linked in and attached to one
// process.

#include "executor/cuda/profiler_range.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

namespace tandem::cuda {
namespace {

constexpr const char* kAttached = "TANDEM_TEST_PROFILER";

/// What the profiler was told, in order.
std::vector<std::string>& told() {
  static std::vector<std::string> calls;
  return calls;
}

nvtxDomainHandle_t create_domain(const char* name) {
  told().push_back(std::string("domain ") + name);
  static char domain = 0;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}

int push(nvtxDomainHandle_t /*domain*/, const nvtxEventAttributes_t* attributes) {
  told().push_back(std::string("push ") + attributes->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t /*domain*/) {
  told().emplace_back("pop");
  return 0;
}

/// Called by NVTX at its first use. 0: this profiler is not attached.
int attach(NvtxGetExportTableFunc_t export_table) {
  if (std::getenv(kAttached) == nullptr) return 0;
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&create_domain);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&push);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&pop);
  return 1;
}

/// Where NVTX looks for a profiler that is linked in, when it is first used.
const bool kLinkedIn = (InitializeInjectionNvtx2_fnptr = &attach) != nullptr;

TEST(ProfilerRange, MakesNoNameWithoutAProfiler) {
  bool named = false;
  {
    const ProfilerRange range([&named] {
      named = true;
      return std::string("F 0");
    });
  }
  EXPECT_FALSE(named);
}

void show_two_ranges_and_exit() {
  setenv(kAttached, "1", 1);
  if (!kLinkedIn) std::exit(2);
  {
    const ProfilerRange outer([] { return std::string("F 17"); });
    const ProfilerRange inner([] { return std::string("U 2"); });
  }
  const std::vector<std::string> expected{"domain tandem", "push F 17", "push U 2", "pop", "pop"};
  std::exit(told() == expected ? 0 : 1);
}

TEST(ProfilerRange, IsSeenByAProfilerInItsDomain) {
  // In a process of its own: NVTX looks for a profiler once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(show_two_ranges_and_exit(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tandem::cuda
