#pragma once
// Trajectories of small trainings: every weight, optimizer state and loss after every update, by
// the executor and by the serial reference, to be compared bit for bit.

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace tandem::testing {

/// Everything that training leaves behind: by version and tensor name, and losses by microbatch.
template <class T>
struct Trace {
  using Key = std::pair<std::int64_t, std::string>;
  std::map<Key, std::vector<T>> weights, optimizer;
  std::vector<double> losses;

  /// What several copies of a stage keep must be the same.
  void keep(const Key& key, std::vector<T> values, std::vector<T> moments) {
    const auto kept = weights.try_emplace(key, values).first;
    EXPECT_EQ(kept->second, values) << "copies of " << key.second << " after " << key.first;
    const auto state = optimizer.try_emplace(key, moments).first;
    EXPECT_EQ(state->second, moments) << "states of " << key.second << " after " << key.first;
  }
};

template <class T>
Trace<T> reference_trace(const TrainingCase& test, const ReferenceConfig& config) {
  const Data data = data_of(test);
  Reference<cpu::Kernels<T>> reference(test.model, config, data);
  Trace<T> trace;
  const ReferenceState<T>& state = reference.state();
  const auto keep = [&](const ReferenceUpdate& update) {
    for (const std::string& name : update.tensors) {
      trace.keep({update.version, name}, state.weights.at(name), state.optimizer.at(name));
    }
  };
  for (std::int64_t batch = 0; batch < test.batches; ++batch) {
    reference.step(keep);
    trace.losses.insert(trace.losses.end(), state.losses.begin(), state.losses.end());
  }
  return trace;
}

template <class T>
Trace<T> by_reference(const TrainingCase& test, WeightSemantics semantics) {
  return reference_trace<T>(test, reference_config(test, semantics));
}

/// What a tensor has of a stage's state.
template <class T>
std::vector<T> state_of(const StateLayout& layout, const Tensor& tensor, std::span<const T> state) {
  std::vector<T> numbers;
  const StateRanges of = layout.of({tensor.offset, tensor.offset + tensor.size()}, tensor);
  for (const ElementRange& range : {of.first, of.second, of.last_step})
    numbers.insert(numbers.end(), state.begin() + range.first, state.begin() + range.last);
  return numbers;
}

template <class T>
Trace<T> by_executor(const TrainingCase& test, const Program& program, const SlotCounts& slots,
                     std::function<void(DeviceId, Instance)> before_work = {},
                     const std::function<void(TrainingSetup<T>&)>& change = {}) {
  const Data data = data_of(test);
  TrainingSetup<T> setup = setup_of<T>(test, program, data);
  setup.slots = slots;
  setup.before_work = std::move(before_work);
  if (change) change(setup);
  Trace<T> trace;
  setup.on_update = [&](const UpdateView<T>& update) {
    const auto& [pipeline, stage, version, weights, state] = update;
    const LayerRange layers = setup.layers[index(program.placement().stage[stage])];
    const Stage<cpu::Kernels<T>> described(test.model, layers, test.microbatch_size, 1.0);
    const StateLayout layout(setup.stage.optimizer.optimizer(), described.parameters());
    for (const Tensor& tensor : described.parameters()) {
      const auto first = weights.begin() + tensor.offset;
      std::vector<T> moments = state_of(layout, tensor, state);
      if (std::ssize(state) > layout.size()) {  // what a correction keeps
        const auto drift = state.begin() + layout.size() + tensor.offset;
        moments.insert(moments.end(), drift, drift + tensor.size());
      }
      trace.keep({version, tensor.name}, {first, first + tensor.size()}, std::move(moments));
    }
  };
  trace.losses = train_on_cpu<T>(program, setup).losses;
  return trace;
}

template <class T>
Trace<T> by_executor(const TrainingCase& test,
                     std::function<void(DeviceId, Instance)> before_work = {}) {
  const Program program = lower(test.make());
  return by_executor<T>(test, program, count_slots(program), std::move(before_work));
}

template <class T>
void expect_equal(const Trace<T>& executor, const Trace<T>& reference) {
  ASSERT_EQ(executor.losses.size(), reference.losses.size());
  for (std::size_t i = 0; i < reference.losses.size(); ++i) {  // bits: a loss may be no number
    EXPECT_EQ(std::bit_cast<std::uint64_t>(executor.losses[i]),
              std::bit_cast<std::uint64_t>(reference.losses[i]))
        << "loss of microbatch " << i;
  }
  ASSERT_EQ(executor.weights.size(), reference.weights.size());
  for (const auto& [key, values] : reference.weights) {
    ASSERT_TRUE(executor.weights.contains(key)) << key.second;
    EXPECT_EQ(executor.weights.at(key), values) << key.second << " after update " << key.first;
  }
  for (const auto& [key, values] : reference.optimizer) {
    EXPECT_EQ(executor.optimizer.at(key), values)
        << "optimizer state of " << key.second << " after " << key.first;
  }
}

}  // namespace tandem::testing
