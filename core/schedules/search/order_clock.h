#pragma once
// When each op of an order runs, and which of them no order of the others can hasten.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/schedules/search/order_problem.h"

namespace tandem {

class OrderClock {
 public:
  /// `problem` must outlive it.
  explicit OrderClock(const OrderProblem& problem)
      : problem_(&problem),
        devices_(problem.devices.size()),
        forwards_(devices_.size() * static_cast<std::size_t>(problem.microbatches)),
        gradients_(forwards_),
        starts_(devices_.size(), std::vector<std::int64_t>(
                                     kLetters * static_cast<std::size_t>(problem.microbatches))),
        ends_(starts_) {}

  static constexpr std::int64_t kDeadlock = std::numeric_limits<std::int64_t>::max();

  /// From 0 to the end of the last update, as simulate() has it; kDeadlock: it never ends.
  /// REQUIRES: words that are possible on each device.
  std::int64_t makespan(const Words& words) {
    const std::size_t p = devices_.size();
    std::fill(devices_.begin(), devices_.end(), Device{});
    // What the first device's forwards and the last one's gradients need is on the device.
    devices_.front().forwards = problem_->microbatches;
    devices_.back().gradients = problem_->microbatches;
    std::fill_n(forwards_.begin(), problem_->microbatches, 0);
    std::fill_n(gradients_.begin() + static_cast<std::ptrdiff_t>(cell(p - 1, 0)),
                problem_->microbatches, 0);
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
    std::int32_t forwards = 0, gradients = 0;  // that have arrived
    std::int64_t last_forward = 0, last_gradient = 0;
  };
  /// As far as what has arrived allows. False: not an op further.
  bool run(std::size_t j, const Word& word) {
    Device& device = devices_[j];
    const std::array<std::int64_t, kLetters>& times = problem_->devices[j].times;
    const std::size_t before = device.at;
    for (; device.at < word.size(); ++device.at) {
      const Letter letter = word[device.at];
      std::int64_t start = device.now;
      if (letter == Letter::forward) {
        if (device.done[0] == device.forwards) break;
        start = std::max(start, forwards_[cell(j, device.done[0]++)]);
        device.now = start + times[0];
        send_forward(j, device.now);
      } else if (letter == Letter::weight) {
        device.now = start + times[2];
      } else {
        if (device.done[1] == device.gradients) break;
        start = std::max(start, gradients_[cell(j, device.done[1]++)]);
        device.now = start + times[1] + (letter == Letter::whole ? times[2] : 0);
        send_gradient(j, device.now);
      }
      starts_[j][device.at] = start;
      ends_[j][device.at] = device.now;
    }
    return device.at != before;
  }
  /// Whose result an op waited for; on a busy link that result may have waited for an earlier
  /// one's.
  Place awaited(Place place) const {
    const bool forward = is_forward_[place.device][place.position];
    std::int32_t k = microbatches_[place.device][place.position];
    const std::size_t from = forward ? place.device - 1 : place.device + 1;
    const std::vector<std::size_t>& producers = forward ? forward_places_ : gradient_places_;
    const std::vector<std::int64_t>& arrivals = forward ? forwards_ : gradients_;
    const std::int64_t link = problem_->devices[std::min(place.device, from)].to_next;
    const auto waited = [&] {
      return ends_[from][producers[cell(from, k)]] + link < arrivals[cell(place.device, k)];
    };
    while (k > 0 && waited()) --k;
    return {from, producers[cell(from, k)]};
  }
  void find_places(const Words& words) {
    microbatches_.resize(words.size());
    is_forward_.resize(words.size());
    forward_places_.resize(forwards_.size());
    gradient_places_.resize(forwards_.size());
    for (std::size_t j = 0; j < words.size(); ++j) {
      microbatches_[j].assign(words[j].size(), 0);
      is_forward_[j].assign(words[j].size(), false);
      std::int32_t forwards = 0, gradients = 0;
      for (std::size_t i = 0; i < words[j].size(); ++i) {
        if (words[j][i] == Letter::weight) continue;
        const bool forward = words[j][i] == Letter::forward;
        is_forward_[j][i] = forward;
        microbatches_[j][i] = forward ? forwards++ : gradients++;
        (forward ? forward_places_ : gradient_places_)[cell(j, microbatches_[j][i])] = i;
      }
    }
  }
  void send_forward(std::size_t j, std::int64_t end) {
    if (j + 1 == devices_.size()) return;
    Device& next = devices_[j + 1];
    if (problem_->shared_links) end = std::max(end, next.last_forward);
    next.last_forward = end + problem_->devices[j].to_next;
    forwards_[cell(j + 1, next.forwards++)] = next.last_forward;
  }
  void send_gradient(std::size_t j, std::int64_t end) {
    if (j == 0) return;
    Device& next = devices_[j - 1];
    if (problem_->shared_links) end = std::max(end, next.last_gradient);
    next.last_gradient = end + problem_->devices[j - 1].to_next;
    gradients_[cell(j - 1, next.gradients++)] = next.last_gradient;
  }
  std::size_t cell(std::size_t device, std::int32_t k) const {
    return device * static_cast<std::size_t>(problem_->microbatches) + static_cast<std::size_t>(k);
  }

  const OrderProblem* problem_;
  std::vector<Device> devices_;
  std::vector<std::int64_t> forwards_, gradients_;        // arrivals, by device and microbatch
  std::vector<std::vector<std::int64_t>> starts_, ends_;  // by device and position
  // Of critical(): the microbatch of each op and whether it is a forward's, by device and position;
  // where forwards and gradients of each microbatch stand, by device and microbatch.
  std::vector<std::vector<std::int32_t>> microbatches_;
  std::vector<std::vector<bool>> is_forward_;
  std::vector<std::size_t> forward_places_, gradient_places_;
};

}  // namespace tandem
