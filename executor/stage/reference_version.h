#pragma once
// ReferenceVersion: a version of a stage's weights as the serial reference keeps it, with what
// passes read instead.

#include <map>
#include <string>
#include <vector>

#include "core/schedule/reading.h"

namespace tandem {

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

  /// Of weights that no step has made: they are predicted to stay.
  void predict_no_change(const Reading& reading, const std::string& name) {
    if (has_forward(reading)) forward[name] = weights.at(name);
    if (has_backward(reading)) backward[name] = weights.at(name);
  }
  /// Where a step was skipped behind `before`: what was corrected stays, too.
  void skip(const ReferenceVersion& before, const Reading& reading, const std::string& name) {
    predict_no_change(reading, name);
    if (reading.corrects()) backward[name] = before.backward.at(name);
  }
  /// A table that is another one's copy.
  void tie(const std::string& copy, const std::string& table) {
    for (Tensors* plane : {&forward, &backward}) {
      if (plane->contains(table)) (*plane)[copy] = plane->at(table);
    }
  }
};

}  // namespace tandem
