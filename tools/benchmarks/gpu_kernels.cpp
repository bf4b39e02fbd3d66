#include "tools/benchmarks/gpu_kernels.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/workspace.h"
#include "executor/cuda/runtime/raii.h"

namespace tandem::benchmarks {
namespace {

using cuda::Bf16;
using cuda::check;

/// The layers of GPT-3 XL, 1.3 G parameters.
constexpr std::int64_t kWidth = 2048, kHeads = 16, kSequence = 1024, kBatch = 8;
constexpr std::int64_t kRows = kBatch * kSequence;
constexpr std::int64_t kVocabulary = 50304;
constexpr AttentionShape kAttention{kBatch, kSequence, kHeads, kWidth};
constexpr double kProductFloor = 0.45, kCopyFloor = 0.8;

/// Numbers on the device, normal with deviation 1, or token ids. Products of zeros are quicker.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::int64_t count)
      : memory_(cuda::allocate_zeros(count * static_cast<std::int64_t>(sizeof(T)))),
        count_(static_cast<std::size_t>(count)) {
    constexpr std::size_t kPart = std::size_t{1} << 20;
    std::vector<T> part(std::min(count_, kPart));
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (T& value : part) value = make(random, normal);
    for (std::size_t at = 0; at < count_; at += part.size()) {
      const std::size_t size = std::min(part.size(), count_ - at);
      check(cudaMemcpy(out().data() + at, part.data(), size * sizeof(T), cudaMemcpyHostToDevice),
            "cudaMemcpy to the device");
    }
  }
  std::span<T> out() const { return {reinterpret_cast<T*>(memory_.get()), count_}; }
  std::span<const T> in() const { return out(); }

 private:
  static T make(std::mt19937& random, std::normal_distribution<float>& normal) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(random() % kVocabulary);
    else
      return cuda::narrow<T>(normal(random));
  }
  cuda::DeviceMemory memory_;
  std::size_t count_;
};

using Floats = OnDevice<float>;

cuda::OwnedStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return cuda::OwnedStream(stream);
}

/// Runs on one stream, timed by events.
class Bench {
 public:
  explicit Bench(int repetitions)
      : repetitions_(repetitions),
        stream_(make_stream()),
        context_(stream_.get(), settings()),
        start_(cuda::make_event(cudaEventDefault)),
        end_(cuda::make_event(cudaEventDefault)) {}

  /// Of one run of `work`: the median over repetitions of as many runs in a row as take 10 ms.
  double seconds(const std::function<void()>& work) {
    time(work, 1);  // loads the kernel, chooses an algorithm
    const double once = time(work, 1);
    const int runs = std::clamp(static_cast<int>(0.01 / std::max(once, 1e-6)), 1, 200);
    std::vector<double> times;
    for (int i = 0; i < repetitions_; ++i) times.push_back(time(work, runs) / runs);
    std::ranges::sort(times);
    return times[times.size() / 2];
  }
  template <class A>
  cuda::Kernels<A> kernels_of() {
    return cuda::Kernels<A>(context_);
  }
  cudaStream_t stream() const { return stream_.get(); }

  /// Seconds of the host for a launch, while the GPU has others before it.
  double launch_seconds() {
    constexpr int kLaunches = 500;
    const Floats small(1024);
    const cuda::Kernels<float> kernels = kernels_of<float>();
    seconds([&] { kernels.fill(small.out(), 1.0); });
    std::vector<double> times;
    for (int i = 0; i < repetitions_; ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (int j = 0; j < kLaunches; ++j) kernels.fill(small.out(), 1.0);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      times.push_back(took.count() / kLaunches);
      check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
    }
    return *std::ranges::min_element(times);
  }

 private:
  static cuda::KernelSettings settings() {
    cuda::KernelSettings settings;
    settings.workspace = Bytes{256} << 20;
    settings.fused_attention = {kAttention};
    return settings;
  }
  double time(const std::function<void()>& work, int runs) {
    check(cudaEventRecord(start_.get(), stream()), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) work();
    check(cudaEventRecord(end_.get(), stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, start_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(ms) / 1000.0;
  }

  int repetitions_;
  cuda::OwnedStream stream_;
  cuda::KernelContext context_;
  cuda::OwnedEvent start_, end_;
};

/// FLOP/s of (rows × inner)·(inner × columns).
template <class A>
double product_rate(Bench& bench, const MatmulShape& shape) {
  const OnDevice<A> a(shape.rows * shape.inner), b(shape.inner * shape.columns);
  const Floats c(shape.rows * shape.columns);
  const OnDevice<float> workspace((Bytes{32} << 20) / 4);
  cuda::Products products(std::as_writable_bytes(workspace.out()));
  const cuda::ProductSpans<A, float> spans{.rows = shape.rows,
                                           .inner = shape.inner,
                                           .columns = shape.columns,
                                           .a = a.in().data(),
                                           .a_row = shape.inner,
                                           .b = b.in().data(),
                                           .b_inner = shape.columns,
                                           .c = c.out().data()};
  const double seconds = bench.seconds([&] { products.multiply(bench.stream(), spans); });
  return 2.0 * static_cast<double>(shape.rows * shape.inner) * static_cast<double>(shape.columns) /
         seconds;
}

template <class A>
Section products_section(Bench& bench, const std::string& type, double peak) {
  Section section{fmt::format("products of {} factors, {} rows", type, kRows), {}};
  const std::pair<const char*, MatmulShape> shapes[] = {
      {"query, key, value", {kRows, kWidth, 3 * kWidth}},
      {"attention's projection", {kRows, kWidth, kWidth}},
      {"expansion", {kRows, kWidth, 4 * kWidth}},
      {"gradient of the expansion's weights", {kWidth, kRows, 4 * kWidth}},
      {"projection", {kRows, 4 * kWidth, kWidth}}};
  for (const auto& [what, shape] : shapes) {
    section.rows.push_back(
        beside_peak(fmt::format("{}: {} x {} x {}", what, shape.rows, shape.inner, shape.columns),
                    product_rate<A>(bench, shape), peak));
    section.rows.back().floor = kProductFloor;
  }
  return section;
}

/// Bytes a second beside those of a copy.
Row beside_copy(const char* what, double rate, double copy) {
  return {.what = what,
          .value = rate / 1e9,
          .unit = "GB/s",
          .of = fmt::format("copy of {:.0f}", copy / 1e9),
          .ratio = rate / copy,
          .floor = kCopyFloor};
}

/// What moves this many bytes, and the work that does.
struct Moving {
  const char* what;
  std::int64_t bytes;
  std::function<void()> work;
};

/// What activations and their gradients go through: matrices of `A`.
template <class A>
struct Activations {
  static constexpr std::int64_t kAll = kRows * kWidth, kBytes = kAll * sizeof(A);
  OnDevice<A> x{kAll}, y{kAll}, z{kAll}, gain{kWidth}, bias{kWidth};
  Floats mean{kRows}, deviation{kRows}, dgain{kWidth}, dbias{kWidth};

  std::vector<Moving> kernels(const cuda::Kernels<A>& k) const {
    const RowShape rows{kRows, kWidth};
    return {
        {"copy", 2 * kBytes, [=, this] { k.copy(x.in(), y.out()); }},
        {"add", 3 * kBytes, [=, this] { k.add(x.in(), y.in(), z.out()); }},
        {"GELU", 2 * kBytes, [=, this] { k.gelu(x.in(), y.out()); }},
        {"backward of GELU", 3 * kBytes, [=, this] { k.gelu_backward(x.in(), y.in(), z.out()); }},
        {"layer norm", 2 * kBytes,
         [=, this] {
           k.layer_norm(rows, {.x = x.in(),
                               .gain = gain.in(),
                               .bias = bias.in(),
                               .mean = mean.out(),
                               .inverse_deviation = deviation.out(),
                               .y = y.out()});
         }},
        {"its backward", 3 * kBytes,
         [=, this] {
           k.layer_norm_backward(rows, {.x = x.in(),
                                        .mean = mean.in(),
                                        .inverse_deviation = deviation.in(),
                                        .gain = gain.in(),
                                        .dy = y.in(),
                                        .dx = z.out()});
         }},
        {"gradients of its weights", 2 * kBytes,
         [=, this] {
           k.layer_norm_backward_weight(rows, {.x = x.in(),
                                               .mean = mean.in(),
                                               .inverse_deviation = deviation.in(),
                                               .dy = y.in(),
                                               .dgain = dgain.out(),
                                               .dbias = dbias.out()});
         }},
        {"gradient of a bias", kBytes, [=, this] { k.accumulate_rows(rows, x.in(), dbias.out()); }},
    };
  }
};

/// What an update goes through.
template <class A>
struct Updates {
  static constexpr std::int64_t kAll = kRows * kWidth;
  Floats weights{kAll}, gradient{kAll}, first{kAll}, second{kAll};
  OnDevice<A> rounded{kAll};
  cuda::DeviceMemory sum = cuda::allocate_zeros(sizeof(double));

  std::vector<Moving> kernels(const cuda::Kernels<A>& k) const {
    constexpr std::int64_t kFloats = kAll * 4;
    constexpr bool kRounds = sizeof(A) < 4;
    const std::span<A> copy = kRounds ? rounded.out() : std::span<A>();
    return {
        {"fill", kFloats, [=, this] { k.fill(second.out(), 1.0); }},
        {"sum of squares", kFloats,
         [=, this] {
           const ElementRange all{0, kAll};
           k.sums_of_squares(gradient.in(), std::span(&all, 1), 1.0,
                             std::span(reinterpret_cast<double*>(sum.get()), 1));
         }},
        {"AdamW", 7 * kFloats + std::ssize(copy) * static_cast<std::int64_t>(sizeof(A)), [=, this] {
           k.step(OptimizerKind::adamw,
                  {.weights = weights.in(),
                   .gradient = gradient.in(),
                   .first = first.out(),
                   .second = second.out(),
                   .weights_out = weights.out(),
                   .rounded = copy},
                  {.learning_rate = 1e-6, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8});
         }}};
  }
};

template <class A>
Section moving_section(Bench& bench, const char* type, double copy) {
  Section section{
      fmt::format("what memory bounds: {} x {} numbers, stored in {}", kRows, kWidth, type), {}};
  const cuda::Kernels<A> kernels = bench.kernels_of<A>();
  const auto add = [&](const auto& memory) {
    for (const Moving& each : memory.kernels(kernels)) {
      const double rate = static_cast<double>(each.bytes) / bench.seconds(each.work);
      section.rows.push_back(beside_copy(each.what, rate, copy));
    }
  };
  add(Activations<A>());
  add(Updates<A>());
  return section;
}

template <class A>
Section attention_section(Bench& bench, const char* type, double peak, const char* peak_of) {
  constexpr std::int64_t kAll = kRows * kWidth;
  const OnDevice<A> qkv(3 * kAll), y(kAll), dy(kAll), dqkv(3 * kAll);
  const Floats log_sum(kBatch * kHeads * kSequence);
  const cuda::Kernels<A> kernels = bench.kernels_of<A>();
  const double forward = bench.seconds([&] {
    kernels.attention(kAttention, {.qkv = qkv.in(), .log_sum = log_sum.out(), .y = y.out()});
  });
  const double backward = bench.seconds([&] {
    kernels.attention_backward(
        kAttention,
        {.qkv = qkv.in(), .log_sum = log_sum.in(), .y = y.in(), .dy = dy.in(), .dqkv = dqkv.out()});
  });
  // Two products forward and five backward, of half the pairs.
  const double product = static_cast<double>(kBatch * kSequence) * kSequence * kWidth;
  const auto row = [&](const char* what, double flops, double seconds) {
    return beside_peak(what, flops / seconds, peak, peak_of);
  };
  return {fmt::format("attention, {}: {} x {} tokens, {} heads of {}", type, kBatch, kSequence,
                      kHeads, kWidth / kHeads),
          {row("forward", 2.0 * product, forward), row("backward", 5.0 * product, backward)}};
}

template <class A>
Section loss_section(Bench& bench, const char* type, double copy) {
  constexpr std::int64_t kLossRows = kSequence;
  const OnDevice<A> logits(kLossRows * kVocabulary);
  const cuda::Kernels<A> kernels = bench.kernels_of<A>();
  std::vector<std::int32_t> targets(kLossRows);
  for (std::size_t i = 0; i < targets.size(); ++i)
    targets[i] = static_cast<std::int32_t>(i * 49 % kVocabulary);
  const cuda::PinnedMemory seen = cuda::allocate_pinned(targets.size() * sizeof(std::int32_t));
  std::memcpy(seen.get(), targets.data(), targets.size() * sizeof(std::int32_t));
  const std::span<const std::int32_t> ids(reinterpret_cast<const std::int32_t*>(seen.get()),
                                          targets.size());
  const cuda::PinnedMemory loss = cuda::allocate_pinned(sizeof(double));
  const double seconds = bench.seconds([&] {
    kernels.cross_entropy({kLossRows, kVocabulary}, ids, 1.0, logits.out(),
                          reinterpret_cast<double*>(loss.get()));
  });
  const double rate = 2.0 * sizeof(A) * static_cast<double>(kLossRows * kVocabulary) / seconds;
  return {fmt::format("cross-entropy, {}: {} rows of {}", type, kLossRows, kVocabulary),
          {beside_copy("loss and gradient, each logit read and written once", rate, copy)}};
}

}  // namespace

Row beside_peak(std::string what, double rate, double peak, std::string_view peak_of) {
  return {.what = std::move(what),
          .value = rate / 1e12,
          .unit = "TFLOP/s",
          .of = fmt::format("{} of {:.1f}", peak_of, peak / 1e12),
          .ratio = rate / peak};
}

GpuPeaks measure_gpu_peaks(const Settings& settings) {
  Bench bench(settings.repetitions);
  GpuPeaks peaks{.bf16 = product_rate<Bf16>(bench, {8192, 8192, 8192}),
                 .f32 = product_rate<float>(bench, {4096, 4096, 4096})};
  constexpr std::int64_t kFloats = std::int64_t{1} << 28;
  const Floats from(kFloats), to(kFloats);
  const double seconds = bench.seconds([&] {
    check(cudaMemcpyAsync(to.out().data(), from.in().data(), from.in().size_bytes(),
                          cudaMemcpyDeviceToDevice, bench.stream()),
          "cudaMemcpyAsync");
  });
  peaks.copy = 2.0 * 4.0 * static_cast<double>(kFloats) / seconds;
  return peaks;
}

void bench_gpu_kernels(const Settings& settings, const std::string& gpus, const Show& show) {
  const GpuPeaks peaks = measure_gpu_peaks(settings);
  Bench bench(settings.repetitions);
  show({fmt::format("at best, in this process: {}", gpus),
        {{.what = "product of bfloat16 factors, 8192 x 8192 x 8192",
          .value = peaks.bf16 / 1e12,
          .unit = "TFLOP/s"},
         {.what = "product of float factors, 4096 x 4096 x 4096",
          .value = peaks.f32 / 1e12,
          .unit = "TFLOP/s"},
         {.what = "copy of 1 GiB, read and written", .value = peaks.copy / 1e9, .unit = "GB/s"}}});
  show(products_section<Bf16>(bench, "bfloat16", peaks.bf16));
  show(products_section<float>(bench, "float", peaks.f32));
  show(moving_section<Bf16>(bench, "bfloat16", peaks.copy));
  show(moving_section<float>(bench, "float", peaks.copy));
  show(loss_section<Bf16>(bench, "bfloat16", peaks.copy));
  show(loss_section<float>(bench, "float", peaks.copy));
  const auto fused = cuda::find_fused_attention(kAttention);
  show(attention_section<Bf16>(bench, fused.plans ? "bfloat16, cuDNN's" : "bfloat16, plain",
                               peaks.bf16, "bf16 peak"));
  show(attention_section<float>(bench, "float", peaks.f32, "f32 peak"));
  show({"the host",
        {{.what = "a launch of a kernel",
          .value = bench.launch_seconds() * 1e6,
          .unit = "us",
          .floor = 5.0,
          .at_most = true}}});
}

}  // namespace tandem::benchmarks
