#pragma once
// Every file that tandem reads or writes as JSON: model, cluster, plan, profile, costs.
//
// read_x reads a file. parse_x reads a text; `file` is for messages. Both throw InputError with
// every diagnostic found; what they return satisfies everything that the file's format asks. x_text
// is what such a file holds, and reads back equal; write_file() writes it (core/text/files.h).

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/model/cluster.h"
#include "core/model/model.h"
#include "core/model/plan.h"

namespace tandem {

/// What model.json holds. Models, which may be files of other programs too, are read by
/// core/import/models.h.
std::string model_text(const ModelSpec& model);

/// Names of devices and groups that the file does not define are the catalogue's
/// (core/model/catalog.h). Clusters that other programs describe are what `tandem import` writes.
ClusterSpec read_cluster(const std::string& path);
ClusterSpec parse_cluster(const std::string& file, std::string text);
std::string cluster_text(const ClusterSpec& cluster);

/// The caller checks that the schedule exists and serves the request.
Plan read_plan(const std::string& path);
Plan parse_plan(const std::string& file, std::string text);
/// REQUIRES: finite predictions.
std::string plan_text(const Plan& plan);

/// Times of layers on one machine, as `tandem profile` measures them.
Profile read_profile(const std::string& path);
Profile parse_profile(const std::string& file, std::string text);

/// Costs of one stage for one microbatch. backward = backward_input + backward_weight, unless the
/// file gives all three.
struct StageCostRow {
  Duration forward{}, backward_input{}, backward_weight{}, backward{};
  Duration update{};
  Duration recompute{};                  // not given: forward
  std::optional<Bytes> activation;       // held from forward to backward
  std::optional<Bytes> weight_gradient;  // of it, from input- to weight-gradient; not given: all
  std::optional<Duration> overlapped{};  // forward and backward as one; not given: their sum
  std::optional<Duration> move{};        // its stash over a link; not given: as any transfer
  friend bool operator==(const StageCostRow&, const StageCostRow&) = default;
};

/// The costs of `simulate --costs FILE`.
struct StageCostFile {
  std::vector<StageCostRow> stages;
  Duration transfer{};          // on each edge between devices
  std::vector<Duration> links;  // instead, from each device to the next; empty: all the same
  Duration reduce{};            // of a stage's gradients over its replicas
  Duration norm{};              // of all gradients of an update
  friend bool operator==(const StageCostFile&, const StageCostFile&) = default;
};

/// Their durations are nanoseconds, their sizes bytes.
StageCostFile read_costs(const std::string& path);
StageCostFile parse_costs(const std::string& file, std::string text);
std::string costs_text(const StageCostFile& costs);

}  // namespace tandem
