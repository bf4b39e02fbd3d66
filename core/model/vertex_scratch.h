#pragma once
// VertexScratch: what a search through a cluster knows of each vertex.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

/// Cleared at once, however many vertices there are: a search sees a few of very many.
template <class Known>
class VertexScratch {
 public:
  void clear(std::size_t vertices) {
    if (++turn_ == 0 || turn_of_.size() < vertices) {
      turn_of_.assign(vertices, 0);
      known_.resize(vertices);
      turn_ = 1;
    }
  }
  bool has(std::uint32_t vertex) const { return turn_of_[vertex] == turn_; }
  /// As it was made, the first time.
  Known& operator[](std::uint32_t vertex) {
    if (!has(vertex)) {
      turn_of_[vertex] = turn_;
      known_[vertex] = {};
    }
    return known_[vertex];
  }

 private:
  std::vector<std::uint32_t> turn_of_;
  std::vector<Known> known_;
  std::uint32_t turn_ = 0;
};

}  // namespace tandem
