#pragma once
// A transport between deferred devices, as strict as can be: what is sent lies nowhere in between,
// so it has ended when the other side has taken it, and streams stand still until then, as those of
// GPUs do in kernels of communication.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "executor/run/transport.h"
#include "tests/support/deferred_backend.h"

namespace tandem::testing {

class RendezvousTransport : public Transport<DeferredBackend<float>> {
 public:
  using Device = DeferredBackend<float>;

  /// `waits`: false is a fault, receivers that take what is there.
  explicit RendezvousTransport(CommunicatorPlans plans, bool waits = true)
      : Transport(std::move(plans)), waits_(waits), states_(this->plans().all().size()) {
    for (std::size_t i = 0; i < states_.size(); ++i)
      states_[i].brought.resize(this->plans().all()[i].devices.size());
  }
  void add(Device& device) { devices_.push_back(&device); }

  void send(std::size_t communicator, std::span<const float> values, Stream& stream) override {
    State& state = states_[communicator];
    Device& device = device_of(communicator, 0);
    const std::int64_t number = state.sends++;
    device.launch_when(stream, {}, [this, &state, values] {
      const std::lock_guard lock(mutex_);
      state.offered = values;
      ++state.offers;
    });
    device.launch_when(stream, when([&state, number] { return state.takes > number; }), [] {});
  }

  void receive(std::size_t communicator, std::span<float> values, Stream& stream) override {
    State& state = states_[communicator];
    const std::int64_t number = state.receives++;
    device_of(communicator, 1)
        .launch_when(stream,
                     when([this, &state, number] { return !waits_ || state.offers > number; }),
                     [this, &state, values] {
                       const std::lock_guard lock(mutex_);
                       if (state.offered.size() == values.size())
                         std::ranges::copy(state.offered, values.begin());
                       ++state.takes;
                     });
  }

  /// In the order of ranks: made when all have brought theirs, given when all have read.
  void sum(std::size_t communicator, DeviceId member, std::span<float> values,
           Stream& stream) override {
    State& state = states_[communicator];
    const std::size_t rank = plans().all()[communicator].rank_of(member);
    const auto ranks = static_cast<std::int64_t>(state.brought.size());
    Device& device = device_of(communicator, rank);
    const std::int64_t round = ++state.brought[rank].rounds;
    device.launch_when(stream, {}, [this, &state, rank, values] {
      const std::lock_guard lock(mutex_);
      state.brought[rank].values = values;
      ++state.arrived;
    });
    device.launch_when(
        stream, when([&state, round, ranks] { return state.arrived >= round * ranks; }),
        [this, &state, rank] {
          const std::lock_guard lock(mutex_);
          std::vector<float> sum(state.brought[0].values.begin(), state.brought[0].values.end());
          for (std::size_t i = 1; i < state.brought.size(); ++i) {
            for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += state.brought[i].values[j];
          }
          state.brought[rank].sum = std::move(sum);
          ++state.summed;
        });
    device.launch_when(stream,
                       when([&state, round, ranks] { return state.summed >= round * ranks; }),
                       [this, &state, rank, values] {
                         const std::lock_guard lock(mutex_);
                         std::ranges::copy(state.brought[rank].sum, values.begin());
                       });
  }

  void abort() override { ++aborts_; }
  int aborts() const { return aborts_; }
  std::int64_t messages() const {
    std::int64_t messages = 0;
    for (const State& state : states_) messages += state.sends;
    return messages;
  }

 private:
  struct Brought {
    std::int64_t rounds = 0;  // of its own thread
    std::span<float> values;
    std::vector<float> sum;
  };
  struct State {
    std::int64_t sends = 0, receives = 0;  // given, each by one thread
    std::int64_t offers = 0, takes = 0, arrived = 0, summed = 0;
    std::span<const float> offered;
    std::vector<Brought> brought;
  };

  /// The condition, asked on the device's own thread while others change the state.
  std::function<bool()> when(std::function<bool()> condition) {
    return [this, condition = std::move(condition)] {
      const std::lock_guard lock(mutex_);
      return condition();
    };
  }

  Device& device_of(std::size_t communicator, std::size_t rank) {
    return *devices_[index(plans().all()[communicator].devices[rank])];
  }

  const bool waits_;
  std::mutex mutex_;
  std::vector<State> states_;
  std::vector<Device*> devices_;
  int aborts_ = 0;
};

}  // namespace tandem::testing
