#pragma once
// What the ranks of a run bring together on the first of them: newest weights at pauses, and at the
// end what each has to report.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/packing.h"
#include "executor/run/training_setup.h"

namespace tandem {

/// Newest weights of some stages, with memory of their own.
template <class W>
struct OwnedWeights {
  LayerRange layers;
  std::vector<W> values;
};

template <class W>
std::string pack_weights(std::span<const StageWeights<W>> stages) {
  Packer packer;
  for (const StageWeights<W>& stage : stages) packer.add(stage.layers).add_all(stage.values);
  return packer.take();
}
template <class W>
std::vector<OwnedWeights<W>> unpack_weights(std::string_view bytes) {
  std::vector<OwnedWeights<W>> stages;
  for (Unpacker unpacker(bytes); !unpacker.empty();) {
    const auto layers = unpacker.get<LayerRange>();
    stages.push_back({layers, unpacker.all<W>()});
  }
  return stages;
}

/// `start`: of the run, by the first rank's clock. Losses are the first rank's already, and weights
/// stay where they are.
template <class W>
std::string pack_report(const TrainingReport<W>& report,
                        std::chrono::steady_clock::time_point start) {
  Packer packer;
  packer.add(start);
  for (const Timeline& timeline : report.timelines)
    packer.add_all(std::span<const Span>(timeline.spans));
  packer.add_all(std::span<const LedgerEntry>(report.ledger));
  for (const DeviceId device : ids(report.high_water))
    packer.add(report.high_water[device])
        .add(report.peak_held[device])
        .add(report.workspace[device]);
  return packer.take();
}
/// Adds what another rank reports. `is_its`: which devices it has run.
template <class W, class IsIts>
void merge_report(TrainingReport<W>& report, std::chrono::steady_clock::time_point start,
                  std::string_view bytes, const IsIts& is_its) {
  Unpacker unpacker(bytes);
  const Duration later = unpacker.get<std::chrono::steady_clock::time_point>() - start;
  for (Timeline& timeline : report.timelines) {
    for (Span span : unpacker.all<Span>()) {
      span.start += later;
      span.end += later;
      timeline.spans.push_back(span);
    }
  }
  const std::vector<LedgerEntry> ledger = unpacker.all<LedgerEntry>();
  report.ledger.insert(report.ledger.end(), ledger.begin(), ledger.end());
  for (const DeviceId device : ids(report.high_water)) {
    const auto high_water = unpacker.get<MemoryByClass>(), held = unpacker.get<MemoryByClass>();
    const auto workspace = unpacker.get<Bytes>();
    if (!is_its(device)) continue;
    report.high_water[device] = high_water;
    report.peak_held[device] = held;
    report.workspace[device] = workspace;
  }
}

}  // namespace tandem
