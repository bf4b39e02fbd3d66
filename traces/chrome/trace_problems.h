#pragma once
// The problems of a trace while it is read. Internal to traces/.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "traces/chrome/trace_check.h"

namespace tandem {

/// Keeps the first problems and counts the others, so that a bad trace costs no more than a good
/// one. `event` is the position in the array of events, or −1.
class TraceProblems {
 public:
  void error(std::int64_t event, std::string message) {
    add({TraceSeverity::error, event, std::move(message)});
  }
  /// A rule of our dialect is broken: an error in our own traces only, and whose it is shows at the
  /// end.
  void dialect(std::int64_t event, std::string message) {
    add({TraceSeverity::warning, event, std::move(message)});
  }
  /// Moves everything into `check`. REQUIRES: check.ours is known; called once.
  void settle(TraceCheck& check);

 private:
  void add(TraceProblem problem);
  void trim();

  std::vector<TraceProblem> problems_;
  std::int64_t dropped_errors_ = 0, dropped_warnings_ = 0;
};

}  // namespace tandem
