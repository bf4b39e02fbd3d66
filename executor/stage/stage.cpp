#include "executor/stage/stage.h"

#include "executor/cpu/kernels.h"
#include "executor/stage/stage_functions.h"

namespace tandem {

TiedRanges tied_ranges(const ModelSpec& model, const std::vector<Tensor>& tensors) {
  TiedRanges tied;
  if (!model.tied) return tied;
  for (const Tensor& tensor : tensors) {
    const ElementRange range{tensor.offset, tensor.offset + tensor.size()};
    if (tensor.name == kTokenTable) tied.embedding = range;
    if (tensor.name == kHeadTable) tied.head = range;
  }
  return tied;
}

template class Stage<cpu::Kernels<float>>;
template class Stage<cpu::Kernels<double>>;

}  // namespace tandem
