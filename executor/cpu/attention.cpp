#include "executor/cpu/attention_blocks.h"
#include "executor/cpu/kernels.h"

namespace tandem::cpu {

template <class T>
void Kernels<T>::attention(AttentionShape shape, const AttentionForward<T>& spans) const {
  attend(shape, spans, block_product_);
}

template <class T>
void Kernels<T>::attention_backward(AttentionShape shape, const AttentionBackward<T>& spans) const {
  attend_backward(shape, spans, block_product_);
}

template void Kernels<float>::attention(AttentionShape, const AttentionForward<float>&) const;
template void Kernels<double>::attention(AttentionShape, const AttentionForward<double>&) const;
template void Kernels<float>::attention_backward(AttentionShape,
                                                 const AttentionBackward<float>&) const;
template void Kernels<double>::attention_backward(AttentionShape,
                                                  const AttentionBackward<double>&) const;

}  // namespace tandem::cpu
