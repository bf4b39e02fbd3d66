#pragma once
// A model on a cluster by their names, or files, with nothing measured: shared by `simulate` and
// `check`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/files/calibration_file.h"
#include "core/model/cluster.h"
#include "planner/cluster/cluster_plan.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"

namespace tandem::tools {

/// Of a batch, where nothing says how large it is.
inline constexpr std::int32_t kMicrobatchesADevice = 4;

/// --model, --cluster and what belongs to them; not those of schedules.
void add_cluster_options(Options& options);
/// --gpu, of the catalogue; null: not given. Throws UsageError.
const DeviceSpec* named_gpu(const Options& options);
/// Of a file; says on stderr what was left out of it or guessed.
ModelSpec model_at(const std::string& path);
/// --transfers: whether devices stop computing while they send or receive. Throws UsageError.
bool blocks_transfers(const Options& options);
/// Whether a model or a cluster is named.
bool names_a_cluster(const Options& options);

/// What single options say. Throw UsageError, InputError.
Cluster cluster_of(const Options& options);
/// By default bf16 where all devices have it, else fp16, else fp32.
NumberFormat format_of(const Options& options, const Cluster& cluster);
/// By default flash with bf16: FlashAttention 2 asks for what computes in that, Ampere on.
AttentionKernel attention_of(const Options& options, NumberFormat format);

struct ClusterSetup {
  Cluster cluster;
  AnalyticAssumptions assumptions;
  std::optional<CalibrationFile> calibration = {};  // that they are of
  DeviceOrder order = DeviceOrder::replicas_first;
  StageCut cut = StageCut::balanced;
  bool blocking_transfers = false;
  ClusterPlan made;
  std::vector<TriedShape> tried;  // where the shape was chosen: the chosen one, then the others
  bool contention = false;        // links are shared through time, for what is assumed
  std::string sequence_note = {};
  double compute_slowdown = 1.0;  // of what is computed while data moves, then

  std::size_t devices_used() const;
  /// "gpt2-xl (1.558 G parameters) on 64 of 64 devices of 8xp3.16xlarge: …".
  std::string summary() const;
  /// What was resolved, and what is assumed.
  Json config() const, stated() const;
  /// The same for people, a line each.
  std::vector<std::string> assumption_lines() const;
  /// What of a profile lies between what was measured.
  std::vector<std::string> warnings() const;
};

/// Says where a sequence comes from that is longer than most train with, as the most that a
/// config.json allows is read as what is trained; empty: it is not so long.
std::string long_sequence_note(const ModelSpec& model, const std::string& file);

/// Throws UsageError, InputError.
ClusterSetup make_cluster_setup(const Options& options);

}  // namespace tandem::tools
