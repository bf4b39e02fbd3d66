#pragma once
// A model on a cluster by their names, or files, with nothing measured.

#include <memory>
#include <span>
#include <string>

#include "planner/cluster/cluster_setup.h"
#include "tools/options/given_options.h"
#include "tools/options/schedule_options.h"

namespace tandem::tools {

/// --model, --cluster and what belongs to them, not those of schedules; what is assumed of devices
/// that nobody has measured.
std::span<const ScenarioOption> cluster_rows(), assumption_rows();
void add_cluster_options(Options& options);

/// Whether what names a model or a cluster is a path, not a name of the catalogue.
bool is_file_name(const std::string& name);
/// In a file; says on stderr what was left out of it or guessed.
ModelSpec model_at(const std::string& path);
/// Whether a model or a cluster is named.
bool names_a_cluster(const GivenOptions& given);

/// What single options say. Throw UsageError, InputError.
/// Of several threads and configurations, those asked for last are made once.
std::shared_ptr<const Cluster> cluster_of(const GivenOptions& given);
/// By default bf16 where all devices have it, else fp16, else fp32.
NumberFormat format_of(const GivenOptions& given, const Cluster& cluster);
/// By default flash with bf16: FlashAttention 2 asks for what computes in that, Ampere on.
AttentionKernel attention_of(const GivenOptions& given, NumberFormat format);

/// Says where a sequence comes from that is longer than most train with, as the most that a
/// config.json allows is read as what is trained; empty: it is not so long.
std::string long_sequence_note(const ModelSpec& model, const std::string& file);

/// Of this schedule. Throws UsageError, InputError.
ClusterRequest cluster_request(const GivenOptions& given, const ScheduleTraits& traits,
                               OtherOptions others = OtherOptions::refused);

/// Of a plan that was made for a cluster, at given.plan; the memory of the devices may be given
/// anew. Throws InputError, at its place in the file, where the plan's schedule has not its
/// options.
ClusterRequest cluster_request(const GivenOptions& given, const Plan& plan);

}  // namespace tandem::tools
