#pragma once
// What a profile measures of layers and updates, on devices of backend B: all of them compute at
// once, in visits to each size of microbatch in turn.

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "executor/backend/wakeup.h"
#include "executor/profile/profile.h"
#include "executor/profile/profile_passes.h"
#include "executor/run/training_run.h"

namespace tandem {

inline constexpr std::int32_t kPassesAnUpdate = 4;  // of two microbatches each

/// By layers and function: the mean time of each device in each visit.
using Means = std::map<MeasuredLayers, std::array<std::vector<Duration>, kMeasured>>;

inline void append_means(const std::vector<Tallies>& devices, Means& all) {
  for (const Tallies& device : devices) {
    for (const auto& [layers, tallies] : device) {
      for (std::size_t i = 0; i < kMeasured; ++i) {
        if (tallies[i].count > 0) all[layers][i].push_back(tallies[i].sum / tallies[i].count);
      }
    }
  }
}

inline Duration median(std::vector<Duration> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

inline void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) throw Interrupted("interrupted: no profile was written");
}

/// One visit to a microbatch size, of whole sequences or of slices: all devices compute at once.
template <Backend B>
class DevicesAtOnce {
 public:
  /// `slices`: tokens of each; of none sequences are whole.
  DevicesAtOnce(const ProfileRequest& request, const BackendMaker<B>& make_backend,
                std::int32_t microbatch_size, std::span<const std::int32_t> slices,
                std::function<void()> tick)
      : request_(request),
        make_backend_(make_backend),
        microbatch_size_(microbatch_size),
        slices_(slices),
        tick_(std::move(tick)),
        data_(request.model, microbatch_size, 1),
        together_(request.busy_devices, Round{this}) {}

  /// What each device measured.
  std::vector<Tallies> measure() {
    start_and_join();
    if (failure_) std::rethrow_exception(failure_);
    check_stop(request_.stop);
    return std::move(all_);
  }

 private:
  /// Between two rounds: whether there is another is decided once, for all devices alike.
  struct Round {
    DevicesAtOnce* devices;
    void operator()() noexcept {
      devices->ended_ = devices->request_.stop.stop_requested() || devices->failed_;
    }
  };

  void start_and_join() {
    std::vector<std::jthread> threads;
    try {
      for (std::int32_t device = 0; device < request_.busy_devices; ++device)
        threads.emplace_back([this, device] { run(device); });
    } catch (...) {
      fail();
      // Those that run wait for those that could not be started.
      const auto missing = request_.busy_devices - static_cast<std::int32_t>(threads.size());
      for (std::int32_t i = 0; i < missing; ++i) together_.arrive_and_drop();
    }
  }

  /// Leaves only between rounds, and all devices after the same one: nobody may wait forever.
  void run(std::int32_t device) {
    Wakeup wakeup;
    std::unique_ptr<B> backend;
    std::unique_ptr<ModelPasses<B>> passes;
    Tallies mine;
    const auto guarded = [this](const auto& work) {
      try {
        work();
      } catch (...) {
        fail();
      }
    };
    guarded([&] {
      backend = make_backend_(id_at<DeviceId>(static_cast<std::size_t>(device)), wakeup, {});
      passes = std::make_unique<ModelPasses<B>>(*backend, request_.model, microbatch_size_,
                                                request_.optimizer, data_, slices_);
    });
    for (std::int32_t i = -1; i < request_.repetitions; ++i) {  // the first untimed
      together_.arrive_and_wait();
      if (ended_) break;
      guarded([&] {
        passes->pass(i % kPassesAnUpdate == 0, i < 0 ? nullptr : &mine);
        if (device == 0 && i >= 0) tick_();
      });
    }
    guarded([&] {
      const std::lock_guard lock(mutex_);
      all_.push_back(std::move(mine));
    });
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    failed_ = true;
  }

  const ProfileRequest& request_;
  const BackendMaker<B>& make_backend_;
  std::int32_t microbatch_size_;
  std::span<const std::int32_t> slices_;
  std::function<void()> tick_;
  Data data_;
  bool ended_ = false;  // written between rounds only
  std::barrier<Round> together_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first
  std::vector<Tallies> all_;
};

inline std::int32_t visits_of(const ProfileRequest& request) {
  constexpr std::int32_t kFewestVisits = 5, kPassesAVisit = 5;
  return std::max(kFewestVisits, request.repetitions / kPassesAVisit);
}

/// By microbatch size.
struct MeasuredSizes {
  std::map<std::int32_t, Means> whole, sliced;
};

/// Each size is measured in several visits, in turn with the others, and slices likewise: a machine
/// that is slower for some seconds is so for all of them. A visit is about as long as a step of
/// training, and what counts of it is its mean, for that is what it has in common with a step: the
/// median of single layers would know nothing of the tenths of a second in which a shared machine
/// is slower, of which every step has its share.
template <Backend B>
MeasuredSizes measure_layers(const ProfileRequest& request, const BackendMaker<B>& make_backend) {
  const std::int32_t visits = visits_of(request);
  MeasuredSizes all;
  const std::size_t kinds = request.slices.empty() ? 1 : 2;
  const auto passes =
      static_cast<std::int32_t>(kinds * request.microbatch_sizes.size()) * request.repetitions;
  std::int32_t passed = 0, done = 0;
  const auto tick = [&] {
    ++passed;
    if (request.on_progress) request.on_progress(passed, passes);
  };
  std::size_t again = static_cast<std::size_t>(visits) * kinds * request.microbatch_sizes.size();
  const auto visit_to = [&](const ProfileRequest& part, std::int32_t size,
                            std::span<const std::int32_t> slices, Means& means) {
    auto measured = DevicesAtOnce<B>(part, make_backend, size, slices, tick).measure();
    for (; request.disturbed && request.disturbed() && again > 0; --again)
      measured = DevicesAtOnce<B>(part, make_backend, size, slices, [] {}).measure();
    append_means(measured, means);
  };
  for (std::int32_t visit = 0; visit < visits; ++visit) {
    ProfileRequest part = request;
    part.repetitions = (request.repetitions - done) / (visits - visit);
    done += part.repetitions;
    if (part.repetitions == 0) continue;
    for (const std::int32_t size : request.microbatch_sizes) {
      visit_to(part, size, {}, all.whole[size]);
      if (!request.slices.empty()) visit_to(part, size, request.slices, all.sliced[size]);
    }
  }
  return all;
}

/// Of one of the slices; of whole sequences there is but one. All share the update.
inline std::vector<LayerCost> layer_costs(const std::map<std::int32_t, Means>& measured,
                                          std::size_t slice = 0) {
  std::vector<LayerCost> rows;
  for (const auto& [size, means] : measured) {
    for (const auto& [layers, times] : means) {
      if (layers.slice != slice) continue;
      const LayerKind kind = layers.kind;
      const auto& update = means.at({0, kind})[index(Measured::update)];
      rows.push_back({.kind = kind,
                      .microbatch_size = size,
                      .forward = median(times[index(Measured::forward)]),
                      .backward_input = median(times[index(Measured::backward_input)]),
                      .backward_weight = median(times[index(Measured::backward_weight)]),
                      .backward = median(times[index(Measured::backward)]),
                      .update = median(update),
                      .selective_recompute = median(times[index(Measured::selective_recompute)])});
      if (const auto& again = times[index(Measured::recompute)]; !again.empty())
        rows.back().recompute = median(again);
    }
  }
  return rows;
}

/// What was measured, into a profile.
inline void put_layers(const MeasuredSizes& measured, const ProfileRequest& request,
                       Profile& profile) {
  profile.layers = layer_costs(measured.whole);
  const std::vector<Slice> slices = slices_of(request.model.sequence, request.slices);
  for (std::size_t i = 0; i < request.slices.size(); ++i) {
    profile.slices.push_back({.tokens = slices[i].tokens,
                              .before = slices[i].context(),
                              .layers = layer_costs(measured.sliced, i)});
  }
}

}  // namespace tandem
