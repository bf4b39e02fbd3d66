#pragma once
// How much a stage is handed, and where the ends of a tied embedding lie in it.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/memory/memory.h"
#include "core/model/model.h"
#include "executor/layers/layer.h"

namespace tandem {

/// Elements of each span that a stage is handed.
struct StageSizes {
  std::int64_t parameters = 0;  // weights, and gradients
  std::int64_t stash = 0;
  std::vector<std::int64_t> stash_pieces = {};    // that it may be handed in
  std::vector<std::int64_t> context_pieces = {};  // kept from forward to backward where the stage
                                                  // of a slice makes its stash again
  std::int64_t boundary = 0;                      // input, output and their gradients
  std::int64_t scratch = 0;  // of backward(), and of forward() where something is made again;
                             // free again when they return
  std::int64_t kept_gradients =
      0;  // of backward_input(): kept until backward_weight() of the same microbatch
  std::int64_t inner_gradient = 0;  // the same, but free again when it returns; scratch is as large
  /// Of keys and values of all tokens, of slices: of their gradients, in W, from the backward of
  /// the last slice to that of the first; of a text, what is kept.
  std::int64_t context_gradient = 0;

  StashPieces pieces() const {
    StashPieces pieces;
    for (const std::int64_t size : stash_pieces) ++pieces.stash[size];
    for (const std::int64_t size : context_pieces) ++pieces.context[size];
    return pieces;
  }
};

/// Where the token embedding lies in a stage: the embedding's own, and the head's copy. Empty when
/// not here, or not tied. Their gradients are summed, embedding + head, before both are updated
/// alike.
struct TiedRanges {
  std::optional<ElementRange> embedding, head;
};

/// Where the token embedding lies among the tensors of a stage.
inline TiedRanges tied_ranges(const ModelSpec& model, const std::vector<Tensor>& tensors) {
  TiedRanges tied;
  if (!model.tied) return tied;
  for (const Tensor& tensor : tensors) {
    const ElementRange range{tensor.offset, tensor.offset + tensor.size()};
    if (tensor.name == kTokenTable) tied.embedding = range;
    if (tensor.name == kHeadTable) tied.head = range;
  }
  return tied;
}

}  // namespace tandem
