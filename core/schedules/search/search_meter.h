#pragma once
// How far the schedule search has come, and whether it may go on.

#include <cstdint>
#include <functional>

#include "core/base/units.h"

namespace tandem {

struct SearchProgress {
  Duration best{}, bound{};
  std::int64_t orders = 0;  // looked at
};

/// Both may be empty. They are asked every so often.
struct SearchControl {
  std::function<bool()> stop;
  std::function<void(const SearchProgress&)> progress;
};

class SearchMeter {
 public:
  /// `control` must outlive it. It is asked each so many orders.
  SearchMeter(std::int64_t orders, std::int64_t between, const SearchControl& control)
      : left_(orders), between_(between), control_(&control) {}

  SearchProgress now;

  /// For a look at an order, whole or begun. False: no more.
  bool spend() {
    if (stopped_ || left_ <= 0) return false;
    --left_;
    if (now.orders++ % between_ == 0) {
      if (control_->progress) control_->progress(now);
      stopped_ = control_->stop && control_->stop();
    }
    return true;
  }
  std::int64_t left() const { return left_; }
  void allow(std::int64_t orders) { left_ = orders; }
  bool stopped() const { return stopped_; }

 private:
  std::int64_t left_;
  const std::int64_t between_;
  const SearchControl* control_;
  bool stopped_ = false;
};

}  // namespace tandem
