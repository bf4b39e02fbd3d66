#include "executor/cpu/onednn.h"

#if TANDEM_ONEDNN

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <unordered_map>

#include <fmt/format.h>
#include <immintrin.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/base/error.h"
#include "executor/cpu/gemm_bf16.h"

// Of libgomp, which oneDNN computes with: for the calling thread alone. Declared here because clang
// has no omp.h of its own in Debian.
extern "C" void omp_set_num_threads(int threads);

namespace tandem::cpu {
namespace {

/// A factor as it lies in memory: `lines` of `length`, `stride` apart, perhaps turned over.
struct Factor {
  const float* data = nullptr;
  std::int64_t lines = 0, length = 0, stride = 0;
  bool turned = false;
  /// Of a single line the stride may be anything; oneDNN wants at least its length.
  std::int64_t leading() const { return std::max(stride, length); }
};

Factor left_of(const Gemm<float>& g) {
  if (g.a_inner == 1) return {g.a, g.rows, g.inner, g.a_row, false};
  return {g.a, g.inner, g.rows, g.a_inner, true};
}

Factor right_of(const Gemm<float>& g) {
  if (g.b_column == 1) return {g.b, g.inner, g.columns, g.b_inner, false};
  return {g.b, g.columns, g.inner, g.b_column, true};
}

void start_from_bias(const Gemm<float>& g) {
  for (std::int64_t row = 0; row < g.rows; ++row)
    std::copy_n(g.bias, g.columns, g.c + row * g.c_row);
}

void run_f32(const Gemm<float>& g, int threads) {
  const Factor left = left_of(g), right = right_of(g);
  if (!g.adds && g.bias != nullptr) start_from_bias(g);
  const float keep = g.adds || g.bias != nullptr ? 1.0F : 0.0F;
  omp_set_num_threads(threads);
  const dnnl_status_t status =
      dnnl_sgemm(left.turned ? 'T' : 'N', right.turned ? 'T' : 'N', g.rows, g.columns, g.inner,
                 1.0F, left.data, left.leading(), right.data, right.leading(), keep, g.c, g.c_row);
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  throw DeviceError(fmt::format("dnnl_sgemm of {} x {} x {} failed with status {}", g.rows, g.inner,
                                g.columns, static_cast<int>(status)));
}

/// What a primitive is made for.
struct Shape {
  std::int64_t rows, inner, columns, c_row;
  bool left_turned, right_turned, adds, has_bias;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// A thread's primitives, and its factors as rounded: grown as needed, kept for the next product.
class RoundedProducts {
 public:
  void run(const Gemm<float>& g) {
    const Factor left = left_of(g), right = right_of(g);
    round(left, left_);
    round(right, right_);
    const Primitive& primitive = primitive_for({.rows = g.rows,
                                                .inner = g.inner,
                                                .columns = g.columns,
                                                .c_row = g.c_row,
                                                .left_turned = left.turned,
                                                .right_turned = right.turned,
                                                .adds = g.adds,
                                                .has_bias = !g.adds && g.bias != nullptr});
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, {primitive.left, engine_, left_.data()}},
        {DNNL_ARG_WEIGHTS, {primitive.right, engine_, right_.data()}},
        {DNNL_ARG_DST, {primitive.out, engine_, g.c}}};
    if (!g.adds && g.bias != nullptr) {
      // oneDNN takes no pointers to const; it does not write to a bias.
      arguments.insert({DNNL_ARG_BIAS, {primitive.bias, engine_, const_cast<float*>(g.bias)}});
    }
    primitive.product.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  using Desc = dnnl::memory::desc;
  struct Primitive {
    Desc left, right, out, bias;
    dnnl::matmul product;
  };

  [[gnu::target("avx512f,avx512bf16")]] static void round(const Factor& from,
                                                          std::vector<std::uint16_t>& to) {
    to.resize(static_cast<std::size_t>(from.lines * from.length));
    std::uint16_t* out = to.data();
    for (std::int64_t line = 0; line < from.lines; ++line) {
      const float* in = from.data + line * from.stride;
      std::int64_t left = from.length;
      for (; left >= 16; left -= 16, in += 16, out += 16) {
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(in));
        std::memcpy(out, &rounded, sizeof rounded);
      }
      if (left == 0) continue;
      const auto mask = static_cast<__mmask16>((1U << left) - 1U);
      const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, in));
      std::memcpy(out, &rounded, static_cast<std::size_t>(left) * sizeof *out);
      out += left;
    }
  }

  const Primitive& primitive_for(const Shape& shape) {
    const auto found = primitives_.find(shape);
    return found != primitives_.end() ? found->second
                                      : primitives_.emplace(shape, make(shape)).first->second;
  }

  Primitive make(const Shape& shape) {
    using Type = dnnl::memory::data_type;
    using Tag = dnnl::memory::format_tag;
    Primitive made;
    made.left = Desc({shape.rows, shape.inner}, Type::bf16, shape.left_turned ? Tag::ba : Tag::ab);
    made.right =
        Desc({shape.inner, shape.columns}, Type::bf16, shape.right_turned ? Tag::ba : Tag::ab);
    made.out = Desc({shape.rows, shape.columns}, Type::f32, dnnl::memory::dims{shape.c_row, 1});
    made.bias = Desc({1, shape.columns}, Type::f32, Tag::ab);
    dnnl::primitive_attr attributes;
    if (shape.adds) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    made.product = product_of(made, attributes, shape.has_bias);
    return made;
  }

  dnnl::matmul product_of(const Primitive& made, const dnnl::primitive_attr& attributes,
                          bool has_bias) const {
    using Wanted = dnnl::matmul::primitive_desc;
#if DNNL_VERSION_MAJOR >= 3
    return has_bias ? Wanted(engine_, made.left, made.right, made.bias, made.out, attributes)
                    : Wanted(engine_, made.left, made.right, made.out, attributes);
#else  // oneDNN 2, as in Debian 12: the operation is described before the primitive.
    using Operation = dnnl::matmul::desc;
    const Operation operation = has_bias ? Operation(made.left, made.right, made.bias, made.out)
                                         : Operation(made.left, made.right, made.out);
    return Wanted(operation, attributes, engine_);
#endif
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Shape, Primitive> primitives_;
  std::vector<std::uint16_t> left_, right_;
};

void run_bf16(const Gemm<float>& g, int threads) {
  thread_local RoundedProducts products;
  omp_set_num_threads(threads);
  try {
    products.run(g);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) throw std::bad_alloc();
    throw DeviceError(fmt::format("oneDNN's bf16 product of {} x {} x {}: {}", g.rows, g.inner,
                                  g.columns, error.what()));
  }
}

bool has_bf16() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  constexpr auto kNeeded = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  constexpr auto kTiles = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_amx);
  // Where nothing describes the tiles it would use them all the same, unconfigured, and die.
  if ((isa & kTiles) == kTiles && !has_bf16_tiles()) return false;
  return (isa & kNeeded) == kNeeded;
}

}  // namespace

ProductRun onednn_f32() { return run_f32; }

ProductRun onednn_bf16() { return has_bf16() ? run_bf16 : nullptr; }

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace tandem::cpu

#else

namespace tandem::cpu {

ProductRun onednn_f32() { return nullptr; }
ProductRun onednn_bf16() { return nullptr; }
std::string onednn_version() { return ""; }

}  // namespace tandem::cpu

#endif
