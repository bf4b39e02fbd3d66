#pragma once
// What a run's keeper was shown, in memory: a run, or a reference, may begin with it.

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "executor/stage/plane.h"

namespace tandem::testing {

/// The state after a number of batches.
template <class W>
class KeptState final : public TrainingStart<W> {
 public:
  explicit KeptState(std::int64_t batches) : batches_(batches) {}

  std::int64_t batches() const override { return batches_; }
  std::int64_t steps(const Tensor& tensor) const override { return steps_.at(tensor.name); }
  bool read(Plane plane, const Tensor& tensor, std::span<W> values) const override {
    const auto found = planes_.find({plane, tensor.name});
    if (found == planes_.end()) return false;
    EXPECT_EQ(found->second.size(), values.size()) << tensor.name;
    std::ranges::copy(found->second, values.begin());
    return true;
  }

  void keep(Plane plane, const std::string& tensor, std::span<const W> values) {
    const bool added = planes_.try_emplace({plane, tensor}, values.begin(), values.end()).second;
    EXPECT_TRUE(added) << name(plane) << " of " << tensor << " is shown twice";
  }
  void set_steps(const std::string& tensor, std::int64_t steps) { steps_[tensor] = steps; }
  /// Whether a run that begins with the other would see the same bits.
  bool equals(const KeptState& other) const {
    return batches_ == other.batches_ && planes_ == other.planes_ && steps_ == other.steps_;
  }
  /// As if none of these had been kept.
  void drop(PlaneKind kind, std::int32_t least_age) {
    std::erase_if(planes_, [&](const auto& each) {
      return each.first.first.kind == kind && each.first.first.age >= least_age;
    });
  }

 private:
  std::int64_t batches_;
  std::map<std::pair<Plane, std::string>, std::vector<W>> planes_;
  std::map<std::string, std::int64_t> steps_;
};

/// Keeps the states of all batches. Its functions are called by several threads.
template <class W>
class AllStates final : public StateKeeper<W> {
 public:
  bool wants(std::int64_t /*batches*/) override { return true; }
  void keep(const ShownPlane<W>& shown) override {
    const std::lock_guard lock(mutex_);
    at(shown.batches).keep(shown.plane, shown.tensor.name, shown.values);
  }
  void end_stage(std::int64_t batches, std::span<const Tensor> tensors,
                 std::int64_t steps) override {
    const std::lock_guard lock(mutex_);
    for (const Tensor& tensor : tensors) at(batches).set_steps(tensor.name, steps);
  }
  KeptState<W>& at(std::int64_t batches) {
    return states_.try_emplace(batches, batches).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, KeptState<W>> states_;
};

}  // namespace tandem::testing
