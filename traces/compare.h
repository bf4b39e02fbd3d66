#pragma once
// compare(): how well a simulated timeline predicted a measured one. Every term is defined in
// traces/README.md, "Comparison".

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/chrome/timeline_file.h"

namespace tandem {

/// One quantity, predicted and measured.
struct Compared {
  Duration simulated{}, measured{};
  Duration difference() const { return simulated - measured; }
  /// (simulated − measured) / measured, in percent: positive when the prediction is too slow. None
  /// if nothing was measured.
  std::optional<double> error_percent() const;
  friend bool operator==(const Compared&, const Compared&) = default;
};

struct DeviceComparison {
  DeviceId device{};
  Compared busy{};    // its compute lane occupied
  Compared bubble{};  // Comparison::counted − busy
};

/// Over the ops of one kind that both sides have, but for warm-up.
struct KindComparison {
  OpKind kind{};
  std::int64_t count = 0;
  Compared total{}, mean{};  // durations
  Duration median_error{};   // of |simulated − measured| of single ops
  Duration percentile_95_error{};
};

struct OpComparison {
  TimelineRecord simulated, measured;
  Compared duration() const {
    return {simulated.end - simulated.start, measured.end - measured.start};
  }
};

struct CompareOptions {
  /// Left out of all but the makespan and the list of ops that one side lacks; nothing is left out
  /// where nothing would remain.
  std::int64_t warm_up_batches = 1;
  std::size_t worst = 10;  // ops listed
};

struct Comparison {
  Compared makespan;
  std::int64_t warm_up_batches = 1;
  std::int64_t batches = 0;      // that both sides completed
  std::int64_t left_out = 0;     // of them, from the first on
  Compared counted;              // from the completion of the last of those to the end
  std::optional<Compared> step;  // none where fewer than two batches remain to take a difference of
  std::vector<Compared>
      steps;  // one a batch, warm-up included: since the completion of the one before
  std::vector<DeviceComparison> devices;
  std::vector<KindComparison> kinds;
  std::int64_t matched = 0;
  std::vector<OpComparison> worst;  // largest difference of durations first
  TimelineRecords only_simulated, only_measured;
  bool same_ops() const { return only_simulated.empty() && only_measured.empty(); }
};

/// Ops correspond when kind, device, stage and microbatch (and a transfer's receiver) are the same.
Comparison compare(const TimelineRecords& simulated, const TimelineRecords& measured,
                   const CompareOptions& options = {});

/// Tables for people.
std::string print_comparison(const Comparison& comparison);

}  // namespace tandem
