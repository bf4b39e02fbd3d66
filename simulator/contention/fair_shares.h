#pragma once
// FairShares: flows under way over links that they share, each at its max-min fair rate: no flow
// can be faster without taking from one that is no faster. Flows over the same links under the same
// limit always have the same rate and so are one group, of which only the sum of bytes that each of
// them was served advances; when a flow begins or ends, only rates of the groups that it shares
// links with, directly or through others, are found anew.

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "core/base/units.h"

namespace tandem {

/// What a nanosecond has. Where flows share links, a rounding early on may grow ten-thousandfold
/// within a batch, so that whole nanoseconds are too coarse inside; runs last up to 3 days so.
inline constexpr std::int64_t kTicks = 1 << 14;

/// The end of time: nothing is due.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// By when all of a run has ended: 3 days. Twice that is still a time.
inline constexpr std::int64_t kEndOfClock = kNever / 2;

/// Something due at a time, unless its subject has a later stamp by then.
struct DueEvent {
  std::int64_t time = 0;
  std::uint32_t subject = 0, stamp = 0;
  friend bool operator>(const DueEvent& a, const DueEvent& b) { return a.time > b.time; }
};
using DueEvents = std::priority_queue<DueEvent, std::vector<DueEvent>, std::greater<>>;

/// `now` and so many ticks, rounded to the nearest; kNever where no clock holds it.
std::int64_t after(std::int64_t now, double ticks);

/// Flows that are alike: what each of them takes of links, and at the most.
struct FlowGroup {
  struct Crossing {
    std::uint32_t link = 0;
    double times = 1.0;
    friend auto operator<=>(const Crossing&, const Crossing&) = default;
  };
  std::vector<Crossing> crossings;  // at least one, each link once
  double cap = 0.0;                 // bytes per second
  double weight = 1.0;
  friend auto operator<=>(const FlowGroup&, const FlowGroup&) = default;
};

/// Times are ticks from the start of the run and never go back.
class FairShares {
 public:
  /// Bytes per second of each link. REQUIRES: positive, as are caps and weights.
  FairShares(std::vector<double> capacities, std::vector<FlowGroup> groups);

  void begin(std::uint32_t group, std::uint32_t flow, Bytes bytes, std::int64_t now);

  /// Flows began or ended since rates were last settled.
  bool unsettled() const { return !changed_.empty(); }
  /// Gives all flows their rates from `now` on. Called once all that begins or ends now has.
  void settle(std::int64_t now);

  /// When the next flow ends if none begins before; kNever: there is none.
  std::int64_t next_end();
  /// Ends those flows of one group that end now, and appends them to `ended`. REQUIRES: next_end()
  /// is now.
  void end(std::int64_t now, std::vector<std::uint32_t>& ended);

 private:
  struct Active {
    double until = 0.0;  // served bytes of its group at which it ends
    std::uint32_t flow = 0;
    friend bool operator>(const Active& a, const Active& b) { return a.until > b.until; }
  };
  struct Group {
    FlowGroup like;
    std::vector<Active> flows;  // a heap, the first to end in front
    double served = 0.0;        // bytes that each flow got since the group was last without any …
    std::int64_t at = 0;        // … as of this time
    double rate = 0.0;          // of each flow
    double next_rate = 0.0;
    std::int64_t end = 0;  // of its first flow, as rates are
    std::uint32_t stamp = 0;
    bool changed = false, open = false;  // open: its rate is to be found
  };
  struct Link {
    double capacity = 0.0;
    std::vector<std::uint32_t> groups;
    double left = 0.0, load = 0.0;  // of open groups: bytes per second, weights
    std::uint32_t open = 0;         // their number
    bool met = false;
  };

  static double share(const Link& link) { return link.left / link.load; }
  void advance(Group& group, std::int64_t now);
  void change(std::uint32_t group);
  void settle_around(std::uint32_t link, std::int64_t now);
  std::span<const std::uint32_t> gather(std::uint32_t link);
  void meet_links_of(const Group& group);
  void fill(std::span<const std::uint32_t> links);
  bool fill_capped(double least);
  void fill_narrowest(std::span<const std::uint32_t> links, double least);
  void fix(Group& group, double rate);

  std::vector<Link> links_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> changed_;
  std::vector<std::uint32_t> met_links_, met_groups_;  // those that the change reaches
  std::size_t open_ = 0;
  DueEvents ends_;
};

}  // namespace tandem
