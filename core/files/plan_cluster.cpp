#include "core/files/plan_cluster.h"

#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/files/cluster_file.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastShare = 1e-3;  // of a peak or a rate

std::optional<double> read_share(const JsonReader& reader) {
  if (reader.absent()) return std::nullopt;
  const double share = reader.number(kLeastShare);
  if (share > 1.0) reader.expected("at most 1");
  return share;
}

Reserve read_reserve(const JsonReader& reader) {
  Reserve reserve;
  if (!reader.object({"share", "bytes"})) return reserve;
  reserve.share = reader["share"].number(0.0);
  if (reserve.share >= 1.0) reader["share"].expected("a share below 1");
  reserve.bytes = reader["bytes"].bytes();
  return reserve;
}

AnalyticAssumptions read_assumptions(const JsonReader& reader) {
  AnalyticAssumptions assumptions;
  assumptions.format = reader["dtype"].one_of<NumberFormat>(kNumberFormats);
  assumptions.attention = reader["attention"].one_of<AttentionKernel>(kAttentionKernels);
  assumptions.tensor =
      reader["tensor"].integer<std::int32_t>(1, static_cast<std::int32_t>(kMostClusterDevices));
  assumptions.sequence_parallel = reader["sequence_parallel"].boolean();
  assumptions.sharded_optimizer = reader["zero"].integer<std::int32_t>(0, 1) == 1;
  assumptions.reserve = read_reserve(reader["reserve"]);
  assumptions.fits_by = reader["fits_by"].one_of<FitsBy>(2);
  assumptions.product_fraction = read_share(reader.optional("product_fraction"));
  assumptions.memory_fraction = read_share(reader.optional("memory_fraction"));
  assumptions.link_fraction = read_share(reader.optional("link_fraction"));
  if (reader.has("collectives"))
    assumptions.collectives = read_collectives_object(reader["collectives"]);
  return assumptions;
}

/// The devices that the plan takes, among those that there are.
void check_devices(const JsonReader& reader, const PlanCluster& on, const Plan& plan) {
  const auto devices = static_cast<std::int64_t>(Cluster(on.cluster).size());
  const std::int64_t taken =
      std::int64_t{plan.request.width} * plan.request.devices * on.assumptions.tensor;
  if (taken <= devices) return;
  reader.diagnose(
      fmt::format("the plan takes {} devices, tensor {} x depth {} x width {}: this cluster has {}",
                  taken, on.assumptions.tensor, plan.request.devices, plan.request.width, devices));
}

}  // namespace

void read_plan_cluster(const JsonReader& plan_object, Plan& plan) {
  if (!plan_object.has("cluster")) return;
  const JsonReader reader = plan_object["cluster"];
  if (!reader.object({"name", "cluster", "tensor", "sequence_parallel", "zero", "dtype",
                      "attention", "device_order", "transfers", "contention", "fits_by", "reserve",
                      "product_fraction", "memory_fraction", "link_fraction", "collectives",
                      "calibration"})) {
    return;
  }
  PlanCluster on;
  on.name = reader["name"].line();
  on.cluster = read_cluster_object(reader["cluster"]);
  on.assumptions = read_assumptions(reader);
  on.order = reader["device_order"].one_of<DeviceOrder>(kDeviceOrders);
  const JsonReader transfers = reader["transfers"];
  const std::string kind = transfers.string();
  on.blocking_transfers = kind == "blocking";
  if (kind != "blocking" && kind != "overlapped")
    transfers.expected("\"overlapped\" or \"blocking\"");
  if (reader.has("contention")) on.contention = reader["contention"].boolean();
  if (reader.has("calibration")) {
    on.calibration = read_calibration_object(reader["calibration"]);
    on.assumptions.calibration = on.calibration->constants;
  }
  if (plan_object.has("schedule_file"))
    plan_object["schedule_file"].diagnose("a plan of a cluster has a schedule by its name");
  if (reader.diagnostics() == 0) check_devices(reader["cluster"], on, plan);
  plan.cluster = std::make_shared<const PlanCluster>(std::move(on));
}

Json plan_cluster_json(const PlanCluster& on) {
  const AnalyticAssumptions& assumptions = on.assumptions;
  Json json{
      {"name", on.name},
      {"tensor", assumptions.tensor},
      {"sequence_parallel", assumptions.sequence_parallel},
      {"zero", assumptions.sharded_optimizer ? 1 : 0},
      {"dtype", name(assumptions.format)},
      {"attention", name(assumptions.attention)},
      {"device_order", name(on.order)},
      {"transfers", on.blocking_transfers ? "blocking" : "overlapped"},
      {"fits_by", name(assumptions.fits_by)},
      {"reserve", {{"share", assumptions.reserve.share}, {"bytes", assumptions.reserve.bytes}}}};
  const auto add = [&json](const char* key, const std::optional<double>& share) {
    if (share) json[key] = *share;
  };
  add("product_fraction", assumptions.product_fraction);
  add("memory_fraction", assumptions.memory_fraction);
  add("link_fraction", assumptions.link_fraction);
  if (on.contention) json["contention"] = true;
  if (assumptions.collectives) json["collectives"] = collectives_json(*assumptions.collectives);
  if (on.calibration) json["calibration"] = calibration_json(*on.calibration);
  json["cluster"] = cluster_json(on.cluster);
  return json;
}

}  // namespace tandem
