#include "tools/benchmarks/simgrid.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <simgrid/s4u.hpp>

#include "tools/benchmarks/benchmark.h"
#include "tools/benchmarks/in_child.h"

namespace tandem::benchmarks {

namespace {

namespace sg = simgrid::s4u;

constexpr double kBytesPerSecond = 1e9;

/// Mailboxes of a device: what reaches it from above and from below.
std::string activations_of(std::size_t device) { return fmt::format("activations {}", device); }
std::string gradients_of(std::size_t device) { return fmt::format("gradients {}", device); }

/// One device: its ops in their order, receiving before and sending after.
void run_device(const std::vector<Op>& order, std::size_t device, std::size_t devices,
                const PeerTimes& times) {
  static int token = 0;
  sg::Mailbox* const from_above = sg::Mailbox::by_name(activations_of(device));
  sg::Mailbox* const from_below = sg::Mailbox::by_name(gradients_of(device));
  // With a receiver at hand a message travels as soon as it is sent, as ours do.
  from_above->set_receiver(sg::Actor::self());
  from_below->set_receiver(sg::Actor::self());
  const auto bytes = static_cast<std::uint64_t>(to_seconds(times.transfer) * kBytesPerSecond);
  for (const Op& op : order) {
    const bool forward = op.kind == OpKind::forward, last = device + 1 == devices;
    if (op.kind == OpKind::update) {
      sg::this_actor::sleep_for(to_seconds(times.update));
      continue;
    }
    if (forward && device > 0) from_above->get<int>();
    if (!forward && !last) from_below->get<int>();
    sg::this_actor::sleep_for(to_seconds(forward ? times.forward : times.backward));
    if (forward && !last)
      sg::Mailbox::by_name(activations_of(device + 1))->put_init(&token, bytes)->detach();
    else if (!forward && device > 0)
      sg::Mailbox::by_name(gradients_of(device - 1))->put_init(&token, bytes)->detach();
  }
}

std::vector<sg::Host*> make_platform(std::size_t devices) {
  sg::NetZone* const zone = sg::create_full_zone("devices");
  std::vector<sg::Host*> hosts;
  for (std::size_t device = 0; device < devices; ++device)
    hosts.push_back(zone->create_host(fmt::format("device {}", device), 1e9));
  const auto join = [&](std::size_t from, std::size_t to) {
    const sg::Link* const link =
        zone->create_link(fmt::format("{} to {}", from, to), kBytesPerSecond)->set_latency(0.0);
    zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr,
                    {sg::LinkInRoute(link)}, false);
  };
  for (std::size_t device = 1; device < devices; ++device) {
    join(device - 1, device);
    join(device, device - 1);
  }
  zone->seal();
  return hosts;
}

PeerRun simulate(const Schedule& schedule, const PeerTimes& times) {
  PeerRun run;
  double start = processor_seconds();
  // No latency of its own, no window that caps bandwidth, and no lines about its settings.
  std::string words[] = {"tandem_bench", "--log=root.thresh:warning", "--cfg=network/model:CM02",
                         "--cfg=network/TCP-gamma:0"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  auto count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  sg::Engine engine(&count, arguments.data());
  const std::vector<sg::Host*> hosts = make_platform(schedule.placement.devices);
  for (std::size_t device = 0; device < hosts.size(); ++device) {
    const std::vector<Op>& order = schedule.order[id_at<DeviceId>(device)];
    sg::Actor::create(fmt::format("actor {}", device), hosts[device],
                      [&order, device, devices = hosts.size(), &times] {
                        run_device(order, device, devices, times);
                      });
  }
  run.build_s = processor_seconds() - start;
  start = processor_seconds();
  engine.run();
  run.run_s = processor_seconds() - start;
  run.makespan_s = sg::Engine::get_clock();
  return run;
}

}  // namespace

std::optional<PeerRun> run_simgrid(const Schedule& schedule, const PeerTimes& times) {
  return in_child<PeerRun>([&] { return simulate(schedule, times); });
}

}  // namespace tandem::benchmarks
