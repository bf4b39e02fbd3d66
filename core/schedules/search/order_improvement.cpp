#include "core/base/random.h"
#include "core/schedules/search/order_clock.h"
#include "core/schedules/search/order_tree.h"

namespace tandem {

namespace {

class Improvement {
 public:
  Improvement(const OrderProblem& problem, std::uint64_t seed, SearchMeter& meter)
      : problem_(problem), random_(seed), meter_(meter), clock_(problem) {}

  /// From `best`, with thresholds from `widest` down to 0 over `steps` orders.
  void descend(FoundOrder& best, std::int64_t bound, std::int64_t widest, std::int64_t steps) {
    words_ = best.words;
    std::int64_t current = clock_.makespan(words_);
    clock_.critical(words_, path_);
    for (std::int64_t step = 0; step < steps && best.makespan > bound; ++step) {
      if (!meter_.spend()) return;
      if (!move()) continue;
      const std::int64_t found = clock_.makespan(words_);
      const std::int64_t threshold = widest * (steps - step) / steps;
      if (found == OrderClock::kDeadlock || found > current + threshold) {
        words_[device_].swap(before_);
        continue;
      }
      current = found;
      clock_.critical(words_, path_);
      if (found >= best.makespan) continue;
      best = {words_, found};
      meter_.now.best = Duration(found);
    }
  }

 private:
  std::size_t random_below(std::size_t bound) {
    return static_cast<std::size_t>(split_mix(random_ += kSplitMixGamma) % bound);
  }

  /// False: it would change nothing, or not be possible.
  bool move() {
    const OrderClock::Place place = path_[random_below(path_.size())];
    constexpr std::size_t kFarthest = 12;
    const std::size_t far = 1 + random_below(1 + random_below(kFarthest));
    const bool earlier = random_below(2) == 0;
    const std::size_t from = place.position;
    Word& word = words_[place.device];
    if (earlier ? from < far : from + far >= word.size()) return false;
    device_ = place.device;
    before_ = word;
    const auto at = [&](std::size_t i) { return word.begin() + static_cast<std::ptrdiff_t>(i); };
    if (earlier) {
      std::rotate(at(from - far), at(from), at(from + 1));
    } else {
      std::rotate(at(from), at(from + 1), at(from + far + 1));
    }
    if (word != before_ && is_possible(problem_, device_, word)) return true;
    word.swap(before_);
    return false;
  }

  const OrderProblem& problem_;
  std::uint64_t random_;
  SearchMeter& meter_;
  OrderClock clock_;
  Words words_;
  std::vector<OrderClock::Place> path_;
  std::size_t device_ = 0;
  Word before_;  // the device's, before the move
};

}  // namespace

void improve(const OrderProblem& problem, std::int64_t bound, std::uint64_t seed,
             SearchMeter& meter, FoundOrder& best) {
  Improvement improvement(problem, seed, meter);
  std::int64_t longest = 0;
  for (const OrderProblem::Device& device : problem.devices)
    longest = std::max(longest, *std::max_element(device.times.begin(), device.times.end()));
  constexpr std::int64_t kDescent = 40'000;
  while (best.makespan > bound && meter.left() > 0 && !meter.stopped())
    improvement.descend(best, bound, longest / 2, std::min(kDescent, meter.left()));
}

}  // namespace tandem
