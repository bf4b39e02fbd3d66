// Any text as a production timeline, and as the file beside it: read and replayed, or refused with
// a reason; never a crash. A replay from measured durations lasts no longer than all of them.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/check.h"
#include "core/error.h"
#include "simulator/replay.h"
#include "traces/recorded_job.h"
#include "traces/recorded_pipeline.h"

namespace tandem {
namespace {

void replay(const Recording& recording) {
  try {
    const Replay replay(recording);
    const std::size_t steps = replay.steps().size();
    for (std::size_t pass = 0; pass < replay.passes(); ++pass) {
      Duration all{};
      for (const Duration cost : replay.pass(pass).costs) all += cost;
      TANDEM_CHECK(replayed_length(replay.pass(pass).program, replay.costs(pass, {})) <= all);
    }
    for (const auto durations : {WhatIf::Durations::usual, WhatIf::Durations::balanced}) {
      TANDEM_CHECK(replay.phases({.durations = durations}).size() == steps);
    }
    const Straggler last{.device = id_at<DeviceId>(recording.devices - 1u),
                         .replica = recording.replicas.back()};
    TANDEM_CHECK(replay.phases({.without = {last}}).size() == steps);
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.complaints().empty());
  }
}

void check(std::string_view text) {
  try {
    Recording recording = read_recording(text, "t.json");
    TANDEM_CHECK(!recording.passes.empty() && !recording.replicas.empty());
    replay(recording);
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.complaints().empty());
  }
  try {
    parse_recorded_job(text, "m.yaml");
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.complaints().empty());
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
