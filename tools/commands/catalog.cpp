// tandem catalog list|show NAME: devices, nodes and models known by name.

#include "core/model/catalog.h"

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/files/cluster_file.h"
#include "core/files/model_file.h"
#include "core/text/count_text.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

Json as_json(const DeviceSpec& device) { return device_json(device); }

/// As a group of a cluster file.
Json as_json(const GroupSpec& node) {
  return group_json(node, {.devices = catalog().devices, .groups = {}});
}

Json as_json(const CatalogModel& row) {
  Json json{{"name", row.model.name}, {"parameters", parameter_count(row.model)}};
  json.update(model_json(row.model));
  json.erase("version");
  json["source"] = row.source;
  return json;
}

std::string print_flops(double flops) {
  return flops == 0.0 ? "-" : fmt::format("{:.4g}", flops / 1e12);
}

/// "25 GB/s".
std::string print_rate(double bytes_per_s) { return fmt::format("{:.4g} GB/s", bytes_per_s / 1e9); }

void print_row(const DeviceSpec& device) {
  fmt::print(
      "{:<18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>11}\n", device.name,
      print_flops(device.flops(NumberFormat::fp32)), print_flops(device.flops(NumberFormat::tf32)),
      print_flops(device.flops(NumberFormat::fp16)), print_flops(device.flops(NumberFormat::bf16)),
      print_flops(device.flops(NumberFormat::fp8)), print_bytes(device.memory_bytes),
      print_rate(device.memory_bytes_per_s));
}

/// Its devices, and how fast those of two nodes reach one another.
void print_row(const GroupSpec& node) {
  const Cluster pair(cluster_of_nodes("2x" + node.name));
  const std::size_t devices = pair.size() / 2;
  double slowest = 0.0, fastest = 0.0;
  for (std::size_t other = 1; other < devices; ++other) {
    const double rate = pair.route(DeviceId{}, id_at<DeviceId>(other)).bytes_per_s;
    slowest = other == 1 ? rate : std::min(slowest, rate);
    fastest = std::max(fastest, rate);
  }
  fmt::print("{:<18} {:>2} x {:<15} {:>13} {:>13} {:>13}\n", node.name, devices,
             pair[DeviceId{}].name, print_rate(fastest), print_rate(slowest),
             print_rate(pair.route(DeviceId{}, id_at<DeviceId>(devices)).bytes_per_s));
}

void print_row(const CatalogModel& row) {
  const ModelSpec& model = row.model;
  fmt::print("{:<18} {:>10} {:>9} {:>9} {:>9} {:>9} {:>11}\n", model.name,
             print_count(parameter_count(model)), model.blocks, model.width, model.heads,
             model.sequence, model.vocabulary);
}

int list_catalog(bool json) {
  if (json) {
    const auto each = [](const auto& row) { return as_json(row); };
    print_result("catalog", {{"list", true}}, Json::object(),
                 {{"devices", array_of(catalog().devices, each)},
                  {"nodes", array_of(catalog().nodes, each)},
                  {"models", array_of(catalog().models, each)}});
    return 0;
  }
  fmt::print(
      "Devices: dense peaks in TFLOP/s.\n\n{:<18} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>11}\n",
      "device", "fp32", "tf32", "fp16", "bf16", "fp8", "memory", "its rate");
  for (const DeviceSpec& device : catalog().devices) print_row(device);
  fmt::print(
      "\nNodes: one way between two devices, inside at best and at worst, and to another node. "
      "--cluster 4xNAME is four of them.\n\n{:<18} {:<20} {:>13} {:>13} {:>13}\n",
      "node", "devices", "inside", "at worst", "outside");
  for (const GroupSpec& node : catalog().nodes) print_row(node);
  fmt::print("\nModels.\n\n{:<18} {:>10} {:>9} {:>9} {:>9} {:>9} {:>11}\n", "model", "parameters",
             "blocks", "width", "heads", "sequence", "vocabulary");
  for (const CatalogModel& row : catalog().models) print_row(row);
  fmt::print(
      "\ntandem catalog show NAME: every figure with its unit, and its source; --json as a file "
      "has it.\n");
  return 0;
}

void print_figures(const DeviceSpec& device) {
  fmt::print("device: {}\n", device.name);
  for (std::size_t i = 0; i < kNumberFormats; ++i) {
    if (device.flops_per_s[i] == 0.0) continue;
    fmt::print("{}: {} TFLOP/s, dense\n", name(static_cast<NumberFormat>(i)),
               print_flops(device.flops_per_s[i]));
  }
  fmt::print("memory: {} at {}\n", print_bytes(device.memory_bytes),
             print_rate(device.memory_bytes_per_s));
  if (device.usd_per_hour) fmt::print("price: ${} an hour\n", *device.usd_per_hour);
  fmt::print("source: {}\n", device.source);
}

/// "18 NVLinks, 450 GB/s one way, latency 1.7 us".
std::string print_link(const LinkSpec& link) {
  return fmt::format("{}, {} one way, latency {:g} us", link.name, print_rate(link.bytes_per_s),
                     static_cast<double>(link.latency.count()) / 1e3);
}

void print_figures(const GroupSpec& node) {
  fmt::print("node: {}\nmembers:\n", node.name);
  for (const ClusterMember& member : node.members) {
    fmt::print("  {} x {}{}\n", member.count, member.name,
               member.device ? fmt::format(" ({})", catalog().devices[*member.device].name) : "");
  }
  fmt::print("links:\n");
  for (const JointSpec& joint : node.joints) {
    fmt::print("  {} - {}: {}\n", text_of(node, joint.from), text_of(node, joint.to),
               print_link(joint.link));
  }
  if (node.network)
    fmt::print("network, of each {}: {}\n", node.members[*node.port].name,
               print_link(*node.network));
  fmt::print("source: {}\n", node.source);
}

void print_figures(const CatalogModel& row) {
  const ModelSpec& model = row.model;
  fmt::print(
      "name: {}\nparameters: {}\narchitecture: {}\nblocks: {}\nwidth: {}\nheads: {}\nsequence: "
      "{}\nvocabulary: {}\ntied: {}\n",
      model.name, parameter_count(model), name(model.architecture), model.blocks, model.width,
      model.heads, model.sequence, model.vocabulary, model.tied);
  if (model.architecture == Architecture::transformer)
    fmt::print("shape: {}\n", shape_json(model.shape).dump());
  fmt::print("source: {}\n", row.source);
}

const char* kind_of(const DeviceSpec&) { return "device"; }
const char* kind_of(const GroupSpec&) { return "node"; }
const char* kind_of(const CatalogModel&) { return "model"; }

int show(const std::string& name, bool json) {
  std::visit(
      [&](const auto* row) {
        if (!json) return print_figures(*row);
        print_result("catalog", {{"show", name}}, Json::object(), {{kind_of(*row), as_json(*row)}});
      },
      row_of_name(name));
  return 0;
}

}  // namespace

Options options_of_catalog() {
  Options options("catalog", "list | show NAME",
                  "Devices, nodes and models known by name, each figure with unit and source.");
  options.words("list or show", 1, 2).first_word({"list", "show"});
  return options;
}

int run_catalog(const Options& options) {
  const std::vector<std::string>& words = options.words();
  if (words[0] == "list" && words.size() == 1) return list_catalog(options.has("json"));
  if (words[0] == "show" && words.size() == 2) return show(words[1], options.has("json"));
  refuse(options, "expected list, or show NAME, found \"{}\"{}", fmt::join(words, " "),
         did_you_mean(words[0] == "list" || words[0] == "show" ? "" : words[0], {"list", "show"}));
}

}  // namespace tandem::tools
