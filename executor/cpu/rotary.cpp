// Rotary positions: pairs of channels of queries and keys turned by their token's position.

#include <array>
#include <cstddef>

#include "core/base/check.h"
#include "executor/cpu/arithmetic.h"
#include "executor/cpu/kernels.h"
#include "executor/cpu/vectors.h"

namespace tandem::cpu {

template <class T>
void Kernels<T>::rotate(AttentionShape shape, const Rotation& rotation, Out qkv) const {
  check_size(qkv, shape.rows() * shape.qkv_width());
  const auto pairs = static_cast<std::size_t>(shape.head_width() / 2);
  TANDEM_CHECK(shape.head_width() % 2 == 0 && pairs <= Rotation::kMostPairs, shape.head_width());
  on_widest_vectors([=, &rotation]() TANDEM_LOOPS {
    std::array<T, Rotation::kMostPairs> cosines, sines;
    const T sign = rotation.back ? T{-1} : T{1};
    const std::int64_t heads = shape.heads + shape.key_heads();
    for (std::int64_t token = 0; token < shape.sequence; ++token) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const Turn turn = turn_at(rotation.first + token, rotation.frequencies[i]);
        cosines[i] = static_cast<T>(turn.cosine);
        sines[i] = sign * static_cast<T>(turn.sine);
      }
      for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
        T* head = qkv.data() + (sample * shape.sequence + token) * shape.qkv_width();
        for (std::int64_t i = 0; i < heads; ++i, head += 2 * pairs) {
          for (std::size_t pair = 0; pair < pairs; ++pair) {
            const T x = head[pair], y = head[pair + pairs];
            head[pair] = fused(x, cosines[pair], -(y * sines[pair]));
            head[pair + pairs] = fused(y, cosines[pair], x * sines[pair]);
          }
        }
      }
    }
  });
}

template void Kernels<float>::rotate(AttentionShape, const Rotation&, Out) const;
template void Kernels<double>::rotate(AttentionShape, const Rotation&, Out) const;

}  // namespace tandem::cpu
