// Any text as a production timeline, as the file beside it, and, cut at lines of dashes, as the
// traces of PyTorch's ranks: read and replayed, or refused with a reason; never a crash. A replay
// from measured durations lasts no longer than all of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "simulator/replay/replay.h"
#include "traces/recorded/pytorch_pipeline.h"
#include "traces/recorded/recorded_job.h"
#include "traces/recorded/recorded_pipeline.h"

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
    for (const auto durations :
         {ReplayVariation::Durations::usual, ReplayVariation::Durations::balanced}) {
      TANDEM_CHECK(replay.phases({.durations = durations}).size() == steps);
    }
    const Straggler last{.device = id_at<DeviceId>(recording.devices - 1u),
                         .replica = recording.replicas.back()};
    TANDEM_CHECK(replay.phases({.without = {last}}).size() == steps);
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty());
  }
}

template <class Read>
void check_recording(const Read& read) {
  try {
    const Recording recording = read();
    TANDEM_CHECK(!recording.passes.empty() && !recording.replicas.empty());
    replay(recording);
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty());
  }
}

std::vector<TraceSource> ranks_of(std::string_view text) {
  constexpr std::string_view kCut = "\n---\n";
  constexpr std::size_t kMost = 8;
  std::vector<TraceSource> ranks;
  while (ranks.size() < kMost) {
    const std::size_t end = std::min(text.find(kCut), text.size());
    ranks.emplace_back(text.substr(0, end), std::to_string(ranks.size()));
    if (end == text.size()) break;
    text.remove_prefix(end + kCut.size());
  }
  return ranks;
}

void check(std::string_view text) {
  check_recording([&] { return read_recording({text, "t.json"}); });
  check_recording([&] { return read_pytorch_pipeline(ranks_of(text)); });
  try {
    parse_recorded_job(text, "m.yaml");
  } catch (const InputError& error) {
    TANDEM_CHECK(!error.diagnostics().empty());
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
