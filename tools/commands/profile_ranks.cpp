#include "tools/commands/profile_ranks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/packing.h"
#include "core/files/cluster_file.h"
#include "core/text/count_text.h"
#include "core/text/files.h"
#include "core/text/json_text.h"
#include "core/text/output_place.h"
#include "executor/profile/processor_speed.h"
#include "executor/ranks/rank_cluster.h"
#include "tools/cli/json_output.h"
#include "tools/cli/memory_limit.h"
#include "tools/options/rank_options.h"

namespace tandem::tools {

namespace {

Json json_of(const LinkRate& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"latency_ns", link.latency.count()},
          {"bytes_per_s", link.bytes_per_s},
          {"bytes_per_s_busy", link.bytes_per_s_busy}};
}

/// While all ranks measure theirs; on rank 0 all, else none.
std::vector<RankDevice> measure_devices(RankGroup& group) {
  group.barrier();
  const ProcessorSpeed speed = measure_processor();
  const RankDevice mine{.product_flops_per_s = speed.product_flops_per_s,
                        .memory_bytes_per_s = speed.memory_bytes_per_s,
                        .memory_bytes = available_memory().value_or(Bytes{1} << 30)};
  std::vector<RankDevice> all;
  for (const std::string& one : group.gather(Packer().add(mine).take()))
    all.push_back(Unpacker(one).get<RankDevice>());
  group.barrier();
  return all;
}

void print_links(const RankGroup& group, const std::vector<LinkRate>& links) {
  for (std::int32_t rank = 0; rank < group.ranks(); ++rank)
    fmt::print("{} at {}\n", group.name(rank), group.info(rank).address);
  fmt::print("\n{:>4} {:>4} {:>12} {:>14} {:>14}\n", "from", "to", "latency", "alone",
             "all at once");
  for (const LinkRate& link : links) {
    fmt::print("{:>4} {:>4} {:>12} {:>12}/s {:>12}/s\n", link.from, link.to,
               print_duration(link.latency), print_bytes(static_cast<Bytes>(link.bytes_per_s)),
               print_bytes(static_cast<Bytes>(link.bytes_per_s_busy)));
  }
}

}  // namespace

int run_profile_ranks(const Options& options) {
  constexpr std::array<std::string_view, 5> kOwn{"ranks", "output", "json", "rendezvous",
                                                 "secret-file"};
  for (const std::string& given : options.given()) {
    if (std::ranges::find(kOwn, given) == kOwn.end())
      refuse(options, "--{} is not for --ranks, which measures links and no model", given);
  }
  if (!options.has("output")) refuse(options, "--output is missing");
  const std::optional<RankPlace> place = rank_place_of(options);
  if (!place) refuse(options, "--ranks needs several: tandem launch -n 2 -- profile --ranks …");
  if (place->rank == 0) check_can_write(options.text("output"));
  RankGroup group(group_setup(options, *place));
  const std::vector<RankDevice> devices = measure_devices(group);
  const std::vector<LinkRate> links = measure_links(group);
  if (group.rank() != 0) return 0;
  std::vector<RankInfo> infos;
  for (std::int32_t rank = 0; rank < group.ranks(); ++rank) infos.push_back(group.info(rank));
  const ClusterSpec cluster = cluster_of(infos, links, devices);
  write_file(options.text("output"), json_text(cluster_json(cluster)));
  if (options.has("json")) {
    print_result("profile", {{"ranks", group.ranks()}, {"output", options.text("output")}},
                 Json::object(),
                 {{"links", array_of(links, json_of)}, {"cluster", cluster_json(cluster)}});
  } else {
    print_links(group, links);
    fmt::print("\nWrote {}: tandem simulate PLAN --cluster {}\n", options.text("output"),
               options.text("output"));
  }
  return 0;
}

}  // namespace tandem::tools
