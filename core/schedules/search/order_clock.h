#pragma once
// When each op of an order runs, and which of them no order of the others can hasten.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/schedules/search/sent_results.h"

namespace tandem {

class OrderClock {
 public:
  /// `problem` must outlive it.
  explicit OrderClock(const OrderProblem& problem)
      : problem_(&problem),
        devices_(problem.devices.size()),
        sent_(problem),
        starts_(devices_.size(), std::vector<std::int64_t>(
                                     kLetters * static_cast<std::size_t>(problem.microbatches))),
        ends_(starts_) {}

  static constexpr std::int64_t kDeadlock = std::numeric_limits<std::int64_t>::max();

  /// From 0 to the end of the last update, as simulate() has it; kDeadlock: it never ends.
  /// REQUIRES: words that are possible on each device.
  std::int64_t makespan(const Words& words) {
    const std::size_t p = devices_.size();
    std::fill(devices_.begin(), devices_.end(), Device{});
    sent_.clear();
    bool moves = true;
    while (moves) {
      moves = false;
      for (std::size_t j = 0; j < p; ++j) moves = run(j, words[j]) || moves;
      for (std::size_t j = p - 1; j-- > 0;) moves = run(j, words[j]) || moves;
    }
    std::int64_t end = 0;
    for (std::size_t j = 0; j < p; ++j) {
      if (devices_[j].at != words[j].size()) return kDeadlock;
      end = std::max(end, devices_[j].now + problem_->devices[j].after);
    }
    return end;
  }

  struct Place {
    std::size_t device = 0, position = 0;
  };
  /// A longest chain of ops that wait for one another, from the end. REQUIRES: a makespan() of
  /// `words` that ended.
  void critical(const Words& words, std::vector<Place>& path) {
    find_places(words);
    path.clear();
    Place place;
    const auto end = [&](std::size_t j) { return devices_[j].now + problem_->devices[j].after; };
    for (std::size_t j = 1; j < devices_.size(); ++j) {
      if (end(j) > end(place.device)) place.device = j;
    }
    place.position = words[place.device].size() - 1;
    while (true) {
      path.push_back(place);
      const std::int64_t start = starts_[place.device][place.position];
      if (start == 0) return;
      if (place.position > 0 && ends_[place.device][place.position - 1] == start) {
        --place.position;
      } else {
        place = awaited(place);
      }
    }
  }

 private:
  struct Device {
    std::size_t at = 0;  // of its word
    std::int64_t now = 0;
    std::array<std::int32_t, kLetters> done{};
  };
  /// What an op of a word does, and to which microbatch.
  struct Work {
    std::size_t kind = 0;
    std::int32_t microbatch = 0;
  };
  /// That of a whole backward is its input's: its weight gradient follows at once.
  static std::size_t kind_of(Letter letter) {
    return letter == Letter::whole ? 1 : static_cast<std::size_t>(letter);
  }

  /// As far as what has arrived allows. False: not an op further.
  bool run(std::size_t j, const Word& word) {
    Device& device = devices_[j];
    const std::array<std::int64_t, kLetters>& times = problem_->devices[j].times;
    const std::size_t before = device.at;
    for (; device.at < word.size(); ++device.at) {
      const Letter letter = word[device.at];
      const std::size_t kind = kind_of(letter);
      std::int64_t start = device.now;
      if (letter != Letter::weight) {
        if (device.done[kind] == sent_.count(j, kind)) break;
        start = std::max(start, sent_.arrival(j, kind, device.done[kind]++));
      }
      device.now = start + times[kind] + (letter == Letter::whole ? times[2] : 0);
      sent_.send(j, kind, device.now);
      starts_[j][device.at] = start;
      ends_[j][device.at] = device.now;
    }
    return device.at != before;
  }
  /// Whose result an op waited for; on a busy link that result may have waited for an earlier
  /// one's.
  Place awaited(Place place) const {
    auto [kind, k] = work_[place.device][place.position];
    const std::size_t from = kind == 0 ? place.device - 1 : place.device + 1;
    const std::int64_t link = problem_->devices[std::min(place.device, from)].to_next;
    const auto waited = [&, of = kind] {
      return ends_[from][places_[of][cell(from, k)]] + link < sent_.arrival(place.device, of, k);
    };
    while (k > 0 && waited()) --k;
    return {from, places_[kind][cell(from, k)]};
  }
  void find_places(const Words& words) {
    work_.resize(words.size());
    for (std::vector<std::size_t>& places : places_) places.resize(cell(words.size(), 0));
    for (std::size_t j = 0; j < words.size(); ++j) {
      work_[j].assign(words[j].size(), Work{});
      std::array<std::int32_t, kLetters> done{};
      for (std::size_t i = 0; i < words[j].size(); ++i) {
        if (words[j][i] == Letter::weight) continue;
        const std::size_t kind = kind_of(words[j][i]);
        work_[j][i] = {kind, done[kind]++};
        places_[kind][cell(j, work_[j][i].microbatch)] = i;
      }
    }
  }
  std::size_t cell(std::size_t device, std::int32_t k) const {
    return device * static_cast<std::size_t>(problem_->microbatches) + static_cast<std::size_t>(k);
  }

  const OrderProblem* problem_;
  std::vector<Device> devices_;
  SentResults sent_;
  std::vector<std::vector<std::int64_t>> starts_, ends_;  // by device and position
  // Of critical():
  std::vector<std::vector<Work>> work_;             // by device and position; not of weights
  std::array<std::vector<std::size_t>, 2> places_;  // of each kind, by device and microbatch
};

}  // namespace tandem
