// Kernels on more elements than 32 bits count: the last of so many come out as those of a small
// call with the same numbers. Memory is mapped and not taken, but for what is written, and of each
// grid the first and the last blocks alone run: it is the arithmetic of indices that is tested.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "executor/cuda/kernels/kernel_set.h"
#include "tests/executor/cuda/cpu_grid.h"

namespace tandem::cuda::testing {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 31;

/// Zeros that take no memory before they are written.
template <class T>
class MappedZeros {
 public:
  explicit MappedZeros(std::int64_t count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)),
        memory_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~MappedZeros() {
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  MappedZeros(const MappedZeros&) = delete;
  MappedZeros& operator=(const MappedZeros&) = delete;

  /// Empty: the machine maps no more.
  std::span<T> all() const {
    if (memory_ == MAP_FAILED) return {};
    return {static_cast<T*>(memory_), bytes_ / sizeof(T)};
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

/// Runs the blocks at both ends of a grid; what the others would leave in the workspace is zero.
class EndsOfGrid {
 public:
  /// So many blocks at each end.
  explicit EndsOfGrid(std::int64_t ends) : ends_(ends) {}

  template <class Body>
  void run(const GridShape& shape, const Body& body) {
    for (std::int64_t index = 0; index < shape.blocks; ++index) {
      if (index == ends_) index = std::max(index, shape.blocks - ends_);
      CpuBlock block(shape, index, Order::ascending);
      body(block);
    }
  }
  template <class T>
  T* workspace(std::int64_t count) {
    workspace_.emplace(count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(workspace_->all().data());
  }

 private:
  std::int64_t ends_;
  std::optional<MappedZeros<std::byte>> workspace_;
};

enum class Size : bool { small, large };
constexpr Size kSizes[] = {Size::small, Size::large};

std::vector<float> drawn(std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// An argument of both calls: the small one's numbers are the last of the large one's.
template <class T>
class Both {
 public:
  Both(std::int64_t count, std::int64_t last) : large_(count) {
    for (const float value : drawn(last)) small_.push_back(narrow<T>(value));
    if (!is_mapped()) return;
    std::ranges::copy(small_, large_.all().last(small_.size()).begin());
  }
  bool is_mapped() const { return !large_.all().empty(); }
  std::span<T> of(Size size) { return size == Size::large ? large_.all() : std::span(small_); }
  std::span<const T> in(Size size) { return of(size); }

  void expect_alike() const {
    const std::span<T> last = large_.all().last(small_.size());
    for (std::size_t i = 0; i < small_.size(); ++i)
      ASSERT_EQ(to_float(last[i]), to_float(small_[i])) << i;
  }

 private:
  MappedZeros<T> large_;
  std::vector<T> small_;
};

template <class... T>
bool are_mapped(const Both<T>&... all) {
  return (all.is_mapped() && ...);
}
constexpr const char* kNoRoom = "this machine does not map so much at once";

class LargeSizes : public ::testing::Test {
 protected:
  EndsOfGrid grid_{72};
  const KernelSet<EndsOfGrid, Bf16> kernels_{grid_};
};

constexpr std::int64_t kTail = 8 * 37 + 5, kAll = kMany + kTail;  // whole packs, and some more

TEST_F(LargeSizes, ElementByElement) {
  Both<Bf16> x(kAll, kTail), z(kAll, kTail), y(kAll, kTail);
  Both<float> w(kAll, kTail);
  if (!are_mapped(x, y, z, w)) GTEST_SKIP() << kNoRoom;
  const auto expect_alike = [&](const auto& work) {
    for (const Size size : kSizes) work(size);
    y.expect_alike();
    w.expect_alike();
  };
  expect_alike([&](Size size) { kernels_.copy(x.in(size), y.of(size)); });
  expect_alike([&](Size size) { kernels_.add(x.in(size), z.in(size), y.of(size)); });
  expect_alike([&](Size size) { kernels_.combine(2.0, x.in(size), -3.0, z.in(size), y.of(size)); });
  expect_alike([&](Size size) { kernels_.gelu(x.in(size), y.of(size)); });
  expect_alike([&](Size size) { kernels_.gelu_backward(x.in(size), z.in(size), y.of(size)); });
  expect_alike([&](Size size) { kernels_.store(w.in(size), y.of(size)); });
  expect_alike([&](Size size) { kernels_.fill(w.of(size), 2.5); });
}

/// The control: an index that has lost its 32nd bit, and the test that sees it.
TEST_F(LargeSizes, AnIndexOf31BitsIsSeen) {
  Both<float> w(kAll, kTail);
  if (!are_mapped(w)) GTEST_SKIP() << kNoRoom;
  const auto fill = [&](Size size, std::int64_t mask) {
    const auto body = [y = w.of(size).data(), mask](std::int64_t i) { y[i & mask] = 2.5F; };
    run_each_element(grid_, std::ssize(w.of(size)), body);
  };
  fill(Size::small, kMany - 1);
  fill(Size::large, kMany - 1);
  EXPECT_NE(w.of(Size::large).back(), w.of(Size::small).back());
  fill(Size::large, -1);
  w.expect_alike();
}

TEST_F(LargeSizes, SumsOfSquares) {
  Both<float> x(kAll, kTail);
  if (!are_mapped(x)) GTEST_SKIP() << kNoRoom;
  double sums[2] = {};
  for (const Size size : kSizes) {
    const ElementRange all{0, std::ssize(x.of(size))};
    kernels_.sums_of_squares(x.in(size), std::span(&all, 1), 1.0,
                             std::span(&sums[static_cast<std::size_t>(size)], 1));
  }
  EXPECT_GT(sums[0], 0.0);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST_F(LargeSizes, AStepOfAdamW) {
  Both<float> weights(kAll, kTail), gradient(kAll, kTail), first(kAll, kTail), second(kAll, kTail);
  Both<Bf16> copy(kAll, kTail);
  if (!are_mapped(weights, gradient, first, second, copy)) GTEST_SKIP() << kNoRoom;
  for (const Size size : kSizes) {
    for (float& value : second.of(size).last(kTail)) value = std::abs(value);
    const std::int64_t end = std::ssize(weights.of(size));
    const ElementRange decayed{end - kTail / 2, end - 3};
    kernels_.step(
        OptimizerKind::adamw,
        {.weights = weights.in(size),
         .gradient = gradient.in(size),
         .first = first.of(size),
         .second = second.of(size),
         .weights_out = weights.of(size),
         .rounded = copy.of(size),
         .decayed = std::span(&decayed, 1)},
        {.learning_rate = 1e-2, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8});
  }
  weights.expect_alike();
  first.expect_alike();
  second.expect_alike();
  copy.expect_alike();
}

/// The last rows of a matrix are its last chunk, by themselves.
struct LargeRows {
  static constexpr std::int64_t kLast = 9;
  std::int64_t width;
  std::int64_t rows = divide_up(divide_up(kMany, width), kRowsOfChunk) * kRowsOfChunk + kLast;

  RowShape of(Size size) const { return {size == Size::large ? rows : kLast, width}; }
  template <class T>
  Both<T> matrix() const {
    return Both<T>(rows * width, kLast * width);
  }
  Both<float> column() const { return Both<float>(rows, kLast); }
};

TEST_F(LargeSizes, LayerNormsRowByRow) {
  for (const std::int64_t width : {2048, 2051}) {
    const LargeRows rows{width};
    auto x = rows.matrix<Bf16>(), y = rows.matrix<Bf16>(), dx = rows.matrix<Bf16>();
    auto mean = rows.column(), deviation = rows.column();
    Both<Bf16> gain(width, width), bias(width, width);
    Both<float> dgain(width, width), dbias(width, width);
    if (!are_mapped(x, y, dx, mean, deviation)) GTEST_SKIP() << kNoRoom;
    for (const Size size : kSizes) {
      kernels_.layer_norm(rows.of(size), {.x = x.in(size),
                                          .gain = gain.in(size),
                                          .bias = bias.in(size),
                                          .mean = mean.of(size),
                                          .inverse_deviation = deviation.of(size),
                                          .y = y.of(size)});
      kernels_.layer_norm_backward(rows.of(size), {.x = x.in(size),
                                                   .mean = mean.in(size),
                                                   .inverse_deviation = deviation.in(size),
                                                   .gain = gain.in(size),
                                                   .dy = y.in(size),
                                                   .dx = dx.of(size)});
    }
    y.expect_alike();
    mean.expect_alike();
    dx.expect_alike();
    auto dy = rows.matrix<Bf16>();  // zeros in all rows but the last
    if (!are_mapped(dy)) GTEST_SKIP() << kNoRoom;
    for (const Size size : kSizes) {
      kernels_.layer_norm_backward_weight(rows.of(size), {.x = x.in(size),
                                                          .mean = mean.in(size),
                                                          .inverse_deviation = deviation.in(size),
                                                          .dy = dy.in(size),
                                                          .dgain = dgain.of(size),
                                                          .dbias = dbias.of(size)});
    }
    dgain.expect_alike();
    dbias.expect_alike();
  }
}

TEST_F(LargeSizes, LossRowByRow) {
  constexpr std::int64_t kVocabulary = 50304, kLast = 3;
  const std::int64_t rows = divide_up(kMany, kVocabulary) + kLast;
  Both<Bf16> logits(rows * kVocabulary, kLast * kVocabulary);
  if (!are_mapped(logits)) GTEST_SKIP() << kNoRoom;
  for (const Size size : kSizes) {
    const RowShape shape{size == Size::large ? rows : kLast, kVocabulary};
    std::vector<std::int32_t> targets(static_cast<std::size_t>(shape.rows), 7);
    targets.back() = kVocabulary - 1;
    double loss = 0.0;
    kernels_.cross_entropy(shape, targets, 0.5, logits.of(size), &loss);
  }
  logits.expect_alike();
}

/// Of a table with so many rows the last, read and added to.
TEST_F(LargeSizes, EmbeddingOfTheLastTokens) {
  constexpr std::int64_t kWidth = 8192, kTokens = 5;
  const std::int64_t tokens = kMany / kWidth + kTokens;
  Both<Bf16> table(tokens * kWidth, kTokens * kWidth);
  Both<float> gradient(tokens * kWidth, kTokens * kWidth);
  if (!are_mapped(table, gradient)) GTEST_SKIP() << kNoRoom;
  const AttentionShape shape{.batch = 1, .sequence = 3, .heads = 1, .width = kWidth};
  std::vector<Bf16> y[2];
  for (const Size size : kSizes) {
    const auto first = static_cast<float>(size == Size::large ? tokens - kTokens : 0);
    const std::vector<float> ids{first + 4, first + 1, first + 4};
    std::vector<Bf16>& made = y[static_cast<std::size_t>(size)];
    made.resize(static_cast<std::size_t>(shape.rows() * kWidth));
    kernels_.embed(shape, ids, table.in(size), {}, made);
    kernels_.embed_backward(shape, ids, made, gradient.of(size), {});
  }
  for (std::size_t i = 0; i < y[0].size(); ++i) ASSERT_EQ(to_float(y[0][i]), to_float(y[1][i]));
  gradient.expect_alike();
}

TEST_F(LargeSizes, AttentionOfTheLastSample) {
  const auto shape_of = [](Size size) {
    AttentionShape shape{.batch = 1, .sequence = 64, .heads = 4, .width = 256};
    if (size == Size::large) shape.batch = kMany / (shape.sequence * shape.qkv_width()) + 1;
    return shape;
  };
  const AttentionShape large = shape_of(Size::large), small = shape_of(Size::small);
  const std::int64_t all = large.rows(), last = small.rows();
  Both<Bf16> qkv(all * large.qkv_width(), last * small.qkv_width()),
      dqkv(all * large.qkv_width(), last * small.qkv_width());
  Both<Bf16> y(all * large.width, last * small.width), dy(all * large.width, last * small.width);
  Both<float> log_sum(all * large.heads, last * small.heads);
  if (!are_mapped(qkv, dqkv, y, dy, log_sum)) GTEST_SKIP() << kNoRoom;
  Rotation rotation;
  std::ranges::fill(rotation.frequencies, 0.25F);
  EndsOfGrid heads(4), positions(1);  // of a sample; of all samples
  const KernelSet<EndsOfGrid, Bf16> of_heads(heads), of_positions(positions);
  for (const Size size : kSizes) {
    const AttentionShape shape = shape_of(size);
    of_positions.rotate(shape, rotation, qkv.of(size));
    of_heads.attention(shape, {.qkv = qkv.in(size), .log_sum = log_sum.of(size), .y = y.of(size)});
    of_heads.attention_backward(shape, {.qkv = qkv.in(size),
                                        .log_sum = log_sum.in(size),
                                        .y = y.in(size),
                                        .dy = dy.in(size),
                                        .dqkv = dqkv.of(size)});
  }
  qkv.expect_alike();
  y.expect_alike();
  log_sum.expect_alike();
  dqkv.expect_alike();
}

}  // namespace
}  // namespace tandem::cuda::testing
