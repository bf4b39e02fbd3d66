#pragma once
// An order under construction, in time: what every device has done so far, and until when.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedules/search/order_problem.h"

namespace tandem {

class PartialOrder {
 public:
  /// Nothing done. `problem` must outlive it.
  explicit PartialOrder(const OrderProblem& problem);

  struct Device {
    std::array<std::int32_t, kLetters> done{};
    std::int64_t now = 0;
    std::int32_t forwards = 0, gradients = 0;  // that have been sent here
    std::int64_t last_forward = 0, last_gradient = 0;
  };
  const Device& operator[](std::size_t device) const { return devices_[device]; }
  std::size_t devices() const { return devices_.size(); }

  /// When the next op of a kind would start; empty: what it needs has not been ordered yet.
  std::optional<std::int64_t> start(std::size_t device, std::size_t kind) const;
  void put(std::size_t device, std::size_t kind);

  /// REQUIRES: it has been sent.
  std::int64_t forward_arrival(std::size_t device, std::int32_t k) const {
    return forwards_[cell(device, k)];
  }
  std::int64_t gradient_arrival(std::size_t device, std::int32_t k) const {
    return gradients_[cell(device, k)];
  }

  /// One of these that are the next ops in time order: an optimal order has one of them next.
  struct Step {
    std::uint16_t device = 0;
    std::uint8_t kind = 0;
  };
  void choices(std::vector<Step>& steps) const;

  bool done() const { return left_ == 0; }
  /// Of a complete order. The updates included.
  std::int64_t makespan() const;

 private:
  std::size_t cell(std::size_t device, std::int32_t k) const {
    return device * static_cast<std::size_t>(problem_->microbatches) + static_cast<std::size_t>(k);
  }

  const OrderProblem* problem_;
  std::vector<Device> devices_;
  std::vector<std::int64_t> forwards_, gradients_;  // arrivals, by device and microbatch
  std::size_t left_;
};

}  // namespace tandem
