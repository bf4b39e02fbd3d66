#pragma once
// Reading: what forwards and backwards of a stage read instead of the newest weights: planes that
// each update makes beside the weights.

namespace tandem {

/// Of one stage; times are in its updates. w: the weights that an update makes.
///
/// Prediction (SpecTrain, arXiv 1809.02839; XPipe, 1911.04610; PipeOptim, 2312.00839): instead of w
/// a pass reads w − horizon·u, u the step that made w, without its decay; version 0 itself.
///
/// PipeMare's discrepancy correction (arXiv 1910.05124, T2): backwards read w − delay·δ, where each
/// update makes δ ← kept·δ + (1 − kept)·(change of w), from 0 at first.
/// INVARIANT: is_possible().
struct Reading {
  double forward_horizon = 0.0;   // 0: forwards read w
  double backward_horizon = 0.0;  // 0: backwards read w, or corrected weights
  double delay = 0.0;  // τ: updates from a forward to its backward, on average; 0: no correction
  double kept = 0.0;   // γ: the share of δ that an update leaves, 0 … 1
  /// All forwards of an update read one prediction, that of the version which is the newest when
  /// the first of them runs (XPipe).
  bool shares_prediction = false;

  /// A stage corrects or predicts, and predicts backwards only where it predicts forwards.
  bool is_possible() const {
    if (shares_prediction && !predicts_forward()) return false;
    return corrects() ? !predicts_forward() && !predicts_backward()
                      : !predicts_backward() || predicts_forward();
  }
  bool corrects() const { return delay > 0.0; }
  bool predicts_forward() const { return forward_horizon > 0.0; }
  bool predicts_backward() const { return backward_horizon > 0.0; }
  /// Backwards read what forwards do, of their own version.
  bool reads_alike() const { return !corrects() && backward_horizon == forward_horizon; }
  /// Backwards have a plane of their own.
  bool has_backward_plane() const { return corrects() || (predicts_backward() && !reads_alike()); }
  friend bool operator==(const Reading&, const Reading&) = default;
};

}  // namespace tandem
