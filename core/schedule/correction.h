#pragma once
// Correction: what makes of the newest weights those that a backward would have found earlier.

namespace tandem {

/// PipeMare's discrepancy correction (arXiv 1910.05124, T2) on one stage: backwards read
/// w − delay·δ instead of the newest weights w, where each update makes
/// δ ← kept·δ + (1 − kept)·(change of w), from 0 at first.
struct Correction {
  double delay = 0.0;  // τ: updates from a forward to its backward, on average; 0: no correction
  double kept = 0.0;   // γ: the share of δ that an update leaves, 0 … 1
  bool corrects() const { return delay > 0.0; }
  friend bool operator==(const Correction&, const Correction&) = default;
};

}  // namespace tandem
