#include "traces/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/program/versions.h"

namespace tandem {
namespace {

struct Change {
  Duration time{};
  std::int64_t by = 0;
};

Curve integrate(std::vector<Change> changes) {
  std::ranges::sort(changes, {}, &Change::time);
  Curve curve{{Duration::zero(), 0}};
  std::int64_t value = 0;
  for (const Change& change : changes) {
    value += change.by;
    if (change.time <= curve.back().time)
      curve.back().value = value;
    else
      curve.push_back({change.time, value});
    if (curve.size() > 1 && curve[curve.size() - 2].value == value) curve.pop_back();
  }
  return curve;
}

/// What one microbatch did on one stage.
struct Life {
  std::optional<Duration> forward, recompute;  // starts
  std::optional<Duration> input_gradient;      // end
  std::optional<Duration> gradient;            // end of the last op that makes weight gradients
  std::optional<Duration> evict, evicted, load, loaded;  // starts and ends of moves
};
using Lives = std::map<std::pair<ReplicaId, std::int64_t>, Life>;

Lives lives_of(const Program& program, const Timeline& timeline) {
  Lives lives;
  for (const Span& span : timeline.spans) {
    const Op& op = program[span.instruction].op;
    if (!is_compute(op.kind) && !moves_stash(op.kind)) continue;
    const std::int64_t last = span.body * program.microbatches() + op.microbatch;
    for (std::int64_t microbatch = last - op.span + 1; microbatch <= last; ++microbatch) {
      Life& life = lives[{op.replica, microbatch}];
      if (makes_output(op.kind)) life.forward = span.start;
      if (repeats(op.kind)) life.recompute = span.start;
      if (moves_stash(op.kind)) {
        (fetches(op.kind) ? life.load : life.evict) = span.start;
        (fetches(op.kind) ? life.loaded : life.evicted) = span.end;
      }
      if (makes_input_gradient(op.kind)) life.input_gradient = span.end;
      if (makes_weight_gradient(op.kind))
        life.gradient = std::max(life.gradient.value_or(span.end), span.end);
    }
  }
  return lives;
}

/// When each version of one stage's weights came to be and was last read.
struct Versions {
  std::map<std::int64_t, Duration> made, last_read;
};

Table<ReplicaId, Versions> versions_of(const Program& program, const Timeline& timeline) {
  const WeightVersions version_of(program);
  Table<ReplicaId, Versions> result(program.placement().replicas());
  for (Versions& versions : result) versions.made[0] = Duration::zero();
  for (const Span& span : timeline.spans) {
    const Op& op = program[span.instruction].op;
    const std::int64_t microbatch = span.body * program.microbatches() + op.microbatch;
    const auto version = version_of({span.instruction, span.body, microbatch});
    if (!version) continue;
    Versions& versions = result[op.replica];
    if (makes_version(op.kind)) {
      versions.made[*version] = span.end;
    } else {
      Duration& read = versions.last_read[*version];
      read = std::max(read, span.end);
    }
  }
  return result;
}

Curve held(const Versions& versions) {
  std::vector<Change> changes;
  for (auto each = versions.made.begin(); each != versions.made.end(); ++each) {
    changes.push_back({each->second, 1});
    const auto next = std::next(each);
    if (next == versions.made.end()) continue;
    const auto read = versions.last_read.find(each->first);
    const Duration last = read == versions.last_read.end() ? Duration::zero() : read->second;
    changes.push_back({std::max({last, next->second, each->second}), -1});
  }
  return integrate(std::move(changes));
}

/// `amount` from one time to another; to the end where there is none.
void hold(std::vector<Change>& changes, std::optional<Duration> from, std::optional<Duration> to,
          std::int64_t amount) {
  if (!from) return;
  changes.push_back({*from, amount});
  if (to) changes.push_back({std::max(*to, *from), -amount});
}

/// The same of a stash that is made at `from`, until it is evicted, and with the partner, until it
/// is back. Returns from when on the device has it for good: a stash that stays, from the start.
std::optional<Duration> hold_until_back(Table<DeviceId, std::vector<Change>>& changes,
                                        const Placement& placement, DeviceId device,
                                        const Life& life, std::optional<Duration> from,
                                        std::int64_t amount) {
  if (!life.evict) return from;
  hold(changes[device], from, life.evicted, amount);
  hold(changes[placement.partner[device]], life.evict, life.loaded, amount);
  return life.load;
}

}  // namespace

Curves curves_of(const Program& program, const Timeline& timeline,
                 const OfSlices<StashBytes>& stash_bytes) {
  const Placement& placement = program.placement();
  const bool sized = stash_bytes.replicas() > 0;
  TANDEM_CHECK(!sized || stash_bytes.replicas() == placement.replicas(), stash_bytes.replicas());
  Table<DeviceId, std::vector<Change>> in_flight(placement.devices), bytes(placement.devices);
  for (const auto& [key, life] : lives_of(program, timeline)) {
    const auto replica = key.first;
    const DeviceId device = placement.device[replica];
    hold(in_flight[device], life.forward, life.gradient, 1);
    if (!sized) continue;
    const auto [stash, context] = stash_bytes(replica, key.second % program.slices());
    const auto made = life.recompute ? life.recompute : life.forward;
    if (life.recompute) hold(bytes[device], life.forward, life.input_gradient, context);
    hold(bytes[device], hold_until_back(bytes, placement, device, life, made, stash), life.gradient,
         stash);
  }
  Curves curves;
  for (auto& changes : in_flight) curves.in_flight.push_back(integrate(std::move(changes)));
  for (auto& changes : bytes) curves.activation_bytes.push_back(integrate(std::move(changes)));
  for (const Versions& versions : versions_of(program, timeline))
    curves.versions.push_back(held(versions));
  return curves;
}

Table<DeviceId, Curve> held_over_time(const Program& program, const Timeline& timeline,
                                      const OfSlices<HeldActivation>& held) {
  const Placement& placement = program.placement();
  TANDEM_CHECK(held.replicas() == placement.replicas(), held.replicas());
  Table<DeviceId, std::vector<Change>> changes(placement.devices);
  for (const auto& [key, life] : lives_of(program, timeline)) {
    const DeviceId device = placement.device[key.first];
    const HeldActivation& of = held(key.first, key.second % program.slices());
    const auto remade = static_cast<Bytes>(std::llround(of.remade));
    const auto all = static_cast<Bytes>(std::llround(of.all)) - remade;
    const auto rest = static_cast<Bytes>(std::llround(of.after_input));
    hold(changes[device], life.recompute, life.input_gradient, remade);
    const auto made = hold_until_back(changes, placement, device, life, life.forward, all);
    hold(changes[device], made, life.input_gradient, all);
    if (made && life.input_gradient)
      hold(changes[device], std::max(*made, *life.input_gradient), life.gradient, rest);
  }
  Table<DeviceId, Curve> curves;
  for (auto& of : changes) curves.push_back(integrate(std::move(of)));
  return curves;
}

std::int64_t peak_of(const Curve& curve) {
  std::int64_t peak = 0;
  for (const Step& step : curve) peak = std::max(peak, step.value);
  return peak;
}

}  // namespace tandem
