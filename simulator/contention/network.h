#pragma once
// Network: what transfers and sums of a program move over, and what they share. Plain data, of no
// cluster's: whoever knows one fills it in.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/table.h"
#include "core/base/units.h"
#include "core/program/cost.h"
#include "core/program/program.h"

namespace tandem {

struct Network {
  enum class LinkId : std::uint32_t {};

  /// Anything of a rate that all flows across it share: one direction of a cable, a switch, a
  /// rack's uplink.
  struct Link {
    std::string name;  // for messages
    double bytes_per_second = 0.0;
  };

  static constexpr double kNoCap = std::numeric_limits<double>::infinity();

  /// Bytes on their way. First the latency passes, during which it takes nothing of any link; then
  /// all its links at once carry it at one rate, its max-min fair share. A ring all-reduce of B
  /// bytes over n devices is 2(n−1)/n · B bytes and 2(n−1) latencies over all links of the ring.
  struct Flow {
    Bytes bytes = 0;
    Duration latency{};
    std::vector<LinkId> links = {};    // one named twice carries each byte twice
    double bytes_per_second = kNoCap;  // its own limit
    double weight = 1.0;  // its share beside others: by 1 / latency TCP's, as in SimGrid's CM02
  };

  Table<LinkId, Link> links;
  /// What a key moves: flows, one after the other. A key without any takes what it is priced.
  /// Empty: no key has any.
  Table<CostId, std::vector<Flow>> flows;
  /// By how much an op of the device's compute lane takes longer while a transfer or a sum that the
  /// device takes part in is under way, latency included, however many are: kernels compete for
  /// memory and multiprocessors with the first one. At least 1; empty: 1.
  Table<DeviceId, double> compute_slowdown;
};

/// Throws InputError with all flows that take longer than any clock holds. REQUIRES (checked):
/// links and flows have rates, flows are over links that are there, and none is of compute;
/// slowdowns are at least 1.
void check(const Network& network, const Program& program);

/// `costs`, but where keys have flows, what these take if nothing is shared: the latencies, and the
/// bytes at the rate of the narrowest link or their own limit. REQUIRES: check() passed.
CostTable unshared_costs(const Network& network, CostTable costs);

/// What bytes of the flow take at the most while no other flow is there.
double unshared_rate(const Network& network, const Network::Flow& flow);

}  // namespace tandem
