#pragma once
// ReferenceVersion: a version of a stage's weights as the serial reference keeps it, with what
// passes read instead.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/schedule/reading.h"
#include "executor/stage/plane.h"

namespace tandem {

template <class T>
std::vector<T> zero_numbers(std::int64_t size) {
  return std::vector<T>(static_cast<std::size_t>(size));
}

/// What an optimizer keeps of a tensor, and δ of a correction behind it.
template <class T>
std::vector<T> begin_state(const TrainingStart<T>& start, Optimizer optimizer, bool corrects,
                           const Tensor& tensor) {
  std::vector<T> state;
  const auto append = [&](PlaneKind kind, std::int64_t size) {
    if (size == 0) return;
    const auto before = state.size();
    state.resize(before + static_cast<std::size_t>(size));
    begin_plane(start, {kind}, tensor, std::span<T>(state).subspan(before));
  };
  const Tensor alone = by_itself(tensor);
  const StateRanges ranges =
      StateLayout(optimizer, std::span(&alone, 1)).of({0, tensor.size()}, alone);
  for (const PlaneKind kind : kOptimizerKinds) append(kind, range_of(ranges, kind).size());
  append(PlaneKind::drift, corrects ? tensor.size() : 0);
  return state;
}

template <class T>
struct ReferenceVersion {
  using Tensors = std::map<std::string, std::vector<T>>;

  Tensors weights = {};
  Tensors forward = {}, backward = {};  // what passes read, where that differs

  static bool has_forward(const Reading& reading) { return reading.predicts_forward(); }
  static bool has_backward(const Reading& reading) {
    return reading.corrects() || reading.predicts_backward();
  }

  const Tensors& read_by_forward() const { return forward.empty() ? weights : forward; }
  const Tensors& read_by_backward() const { return backward.empty() ? weights : backward; }

  /// A tensor of the version that is `age` updates older than the newest.
  void begin(const TrainingStart<T>& start, std::int32_t age, const Reading& reading,
             const Tensor& tensor) {
    const auto read = [&](PlaneKind kind) {
      std::vector<T> values = zero_numbers<T>(tensor.size());
      begin_plane(start, {kind, age}, tensor, std::span<T>(values));
      return values;
    };
    weights[tensor.name] = read(PlaneKind::weights);
    if (has_forward(reading)) forward[tensor.name] = read(PlaneKind::forward_weights);
    if (!has_backward(reading)) return;
    backward[tensor.name] =
        reading.has_backward_plane() ? read(PlaneKind::backward_weights) : forward.at(tensor.name);
  }

  /// Of weights that no step has made: they are predicted to stay.
  void predict_no_change(const Reading& reading, const std::string& name,
                         const std::vector<T>& unchanged) {
    if (has_forward(reading)) forward[name] = unchanged;
    if (has_backward(reading)) backward[name] = unchanged;
  }
  /// Where a step was skipped behind `before`: what was corrected stays, too.
  void skip(const ReferenceVersion& before, const Reading& reading, const std::string& name) {
    predict_no_change(reading, name, weights.at(name));
    if (reading.corrects()) backward[name] = before.backward.at(name);
  }
  /// A table that is another one's copy.
  void tie(const std::string& copy, const std::string& table) {
    for (Tensors* plane : {&forward, &backward}) {
      if (plane->contains(table)) (*plane)[copy] = plane->at(table);
    }
  }
};

/// As many versions of a stage as `versions` has places, the newest last.
template <class T>
void begin_versions(const TrainingStart<T>& start, const Reading& reading, const Tensor& tensor,
                    std::deque<ReferenceVersion<T>>& versions) {
  auto age = static_cast<std::int32_t>(versions.size());
  for (ReferenceVersion<T>& version : versions) version.begin(start, --age, reading, tensor);
}

}  // namespace tandem
