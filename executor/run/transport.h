#pragma once
// Transport: how messages and sums between devices are made where these can't, or shall not, reach
// into one another's memory. Both ends take part: what one sends, the other receives.

#include <cstddef>
#include <span>
#include <utility>

#include "executor/run/communicator_plans.h"

namespace tandem {

/// Made, and connected, before the devices start. Each call is made in a task of the device's own
/// thread, and takes effect on the stream, as kernels do: what comes before on the stream goes
/// before it. `communicator` is a place in plans().all().
template <class B>
class Transport {
 public:
  using T = typename B::Scalar;
  using W = typename B::Kernels::Wide;
  using Stream = typename B::Stream;

  explicit Transport(CommunicatorPlans plans) : plans_(std::move(plans)) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  const CommunicatorPlans& plans() const { return plans_; }

  /// The n-th that is sent over a communicator is the n-th that is received; REQUIRES: as long.
  virtual void send(std::size_t communicator, std::span<const T> values, Stream& stream) = 0;
  virtual void receive(std::size_t communicator, std::span<T> values, Stream& stream) = 0;
  /// Replaces what each member gives by the sum over all of them. The order of the addition is the
  /// transport's: the same for equal runs, but not the order of ranks.
  virtual void sum(std::size_t communicator, DeviceId device, std::span<W> values,
                   Stream& stream) = 0;
  /// Ends what will never end, for a member is gone. The devices' threads have stopped.
  virtual void abort() = 0;

 private:
  CommunicatorPlans plans_;
};

}  // namespace tandem
