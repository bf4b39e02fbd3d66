#include "executor/cpu/products.h"

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/random.h"
#include "executor/cpu/backend.h"
#include "executor/cpu/gemm_bf16.h"
#include "executor/cpu/onednn.h"

namespace tandem::cpu {
namespace {

/// One product of the check. Forms: y = x·w, y = x·wᵀ, dw += xᵀ·dy.
struct Checked {
  std::int64_t rows, inner, columns;
  bool left_turned, right_turned;
};

// As a transformer has them: expanding, contracting, and gradients of weights.
constexpr std::array<Checked, 5> kChecked{{{256, 128, 512, false, false},
                                           {256, 512, 128, false, false},
                                           {256, 512, 128, false, true},
                                           {256, 128, 512, false, true},
                                           {128, 256, 512, true, false}}};

std::vector<float> numbers(std::int64_t count, std::uint64_t key) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(uniform(random_bits(1, key, i)) - 0.5);
  return values;
}

constexpr int kMostThreads = 3;

/// By so many threads, in parts of so many rows.
std::vector<float> product_by(ProductRun run, const Checked& shape, int threads,
                              std::int64_t rows) {
  const std::vector<float> left = numbers(shape.rows * shape.inner, 2);
  const std::vector<float> right = numbers(shape.inner * shape.columns, 3);
  std::vector<float> out(static_cast<std::size_t>(shape.rows * shape.columns), 0.5F);
  for (std::int64_t row = 0; row < shape.rows; row += rows) {
    const bool turned = shape.left_turned;
    run(Gemm<float>{.rows = rows,
                    .inner = shape.inner,
                    .columns = shape.columns,
                    .a = left.data() + (turned ? row : row * shape.inner),
                    .a_row = turned ? 1 : shape.inner,
                    .a_inner = turned ? shape.rows : 1,
                    .b = right.data(),
                    .b_inner = shape.right_turned ? 1 : shape.columns,
                    .b_column = shape.right_turned ? shape.inner : 1,
                    .c = out.data() + row * shape.columns,
                    .c_row = shape.columns,
                    .adds = turned},
        threads);
  }
  return out;
}

// oneDNN's code is generated as it runs, and its threads are libgomp's: the thread sanitizer sees
// neither.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

ProductEngine portable(Precision precision) {
  const bool rounds = precision == Precision::bf16;
  return {.name = "portable", .precision = precision, .run = rounds ? gemm_bf16 : gemm<float>};
}
void run_onednn_f32(const Gemm<float>& g) { onednn_f32()(g, 1); }
void run_onednn_bf16(const Gemm<float>& g) { onednn_bf16()(g, 1); }

ProductEngine onednn(Precision precision) {
  const bool rounds = precision == Precision::bf16;
  return {
      .name = "onednn", .precision = precision, .run = rounds ? run_onednn_bf16 : run_onednn_f32};
}

std::string why_absent(Precision precision) {
  if (kThreadSanitizer) return "oneDNN is not instrumented for the thread sanitizer";
  const std::string no_bf16 = precision == Precision::bf16 ? why_no_bf16() : "";
  return no_bf16.empty() ? "this build has no oneDNN (libdnnl-dev)" : no_bf16;
}

/// Throws where so many threads more don't start. libgomp would end the process for want of one;
/// now it finds their stacks, and what the allocator sets apart for each.
void check_threads_start(int count) {
  if (count == 0) return;
  const std::jthread one([](const std::stop_token& ended) {
    void* volatile memory = std::malloc(1);
    std::free(memory);
    while (!ended.stop_requested()) std::this_thread::yield();
  });
  check_threads_start(count - 1);
}

/// oneDNN dies where it finds no memory for the kernels that it makes: then it is not begun with.
void check_room_for_kernels() {
  constexpr Bytes kRoom = Bytes{128} << 20;  // addresses: of memory it takes much less
  try {
    std::free(allocate_aligned(kRoom));
  } catch (const std::bad_alloc&) {
    throw DeviceError(fmt::format(
        "out of memory: oneDNN's kernels need {} of addresses; --kernels portable needs none",
        print_bytes(kRoom)));
  }
}

/// Runs `check` on a thread of its own: the library's threads end with it.
std::optional<std::string> checked_apart(ProductRun run) {
  std::optional<std::string> found;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      check_threads_start(kMostThreads - 1);
      check_room_for_kernels();
      found = find_variance(run);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return found;
}

struct Process {
  std::mutex mutex;
  std::optional<ChosenProducts> chosen;
  std::atomic<void (*)(const Gemm<float>&)> run = nullptr, run_block = nullptr;  // as chosen
  std::atomic<Precision> precision = Precision::f32;
};

Process& process() {
  static Process state;
  return state;
}

ProductRun library_run(Precision precision) {
  if (kThreadSanitizer) return nullptr;
  return precision == Precision::bf16 ? onednn_bf16() : onednn_f32();
}

}  // namespace

std::string_view name(Precision precision) { return precision == Precision::f32 ? "f32" : "bf16"; }

std::string describe(const ProductEngine& engine) {
  return fmt::format("{} {}", engine.name, name(engine.precision));
}

std::string why_no_bf16() {
  return has_bf16_instructions() ? "" : "this processor has no bfloat16 instructions (AVX512_BF16)";
}

std::optional<std::string> find_variance(ProductRun run) {
  for (const Checked& shape : kChecked) {
    const std::vector<float> whole = product_by(run, shape, 1, shape.rows);
    for (int threads = 1; threads <= kMostThreads; ++threads) {
      for (const std::int64_t parts : {1, 2, 4}) {
        if (product_by(run, shape, threads, shape.rows / parts) == whole) continue;
        return fmt::format(
            "a product of {} x {} x {} in {} part(s) of its rows by {} thread(s) "
            "has other bits than the whole by one",
            shape.rows, shape.inner, shape.columns, parts, threads);
      }
    }
  }
  return {};
}

ChosenProducts choose_products(const ProductRequest& request, ProductRun library) {
  const auto& [wanted, precision] = request;
  if (wanted != "auto" && wanted != "portable" && wanted != "onednn") {
    throw UsageError(
        fmt::format("kernels: expected auto, portable or onednn, found \"{}\"", wanted));
  }
  const bool rounds = precision == Precision::bf16;
  if (wanted == "portable") {
    if (rounds && !has_bf16_instructions())
      throw AbsentError("bf16 products are not available: " + why_no_bf16());
    return {portable(precision), "asked for"};
  }
  if (wanted == "auto" && rounds && has_bf16_instructions() && !has_bf16_tiles())
    return {portable(precision), "faster than oneDNN's on processors without tiles of bfloat16"};
  std::string failure;
  if (library == nullptr) {
    failure = why_absent(precision);
  } else if (const std::optional<std::string> variance = checked_apart(library)) {
    failure = "oneDNN's products vary on this machine: " + *variance;
  } else {
    return {onednn(precision), "oneDNN's products are the same bits whatever the threads and rows"};
  }
  if (rounds) throw AbsentError("bf16 products are not available: " + failure);
  if (wanted == "onednn") throw AbsentError("oneDNN's kernels are not available: " + failure);
  return {portable(precision), failure};
}

ChosenProducts products() {
  Process& state = process();
  {
    const std::lock_guard lock(state.mutex);
    if (state.chosen) return *state.chosen;
  }
  set_products({});
  return products();
}

void (*float_product())(const Gemm<float>&) {
  const auto run = process().run.load(std::memory_order_acquire);
  return run != nullptr ? run : products().engine.run;
}

void (*float_block_product())(const Gemm<float>&) {
  float_product();
  return process().run_block.load(std::memory_order_acquire);
}

Precision product_precision() { return process().precision; }

void set_product_precision(Precision precision) { process().precision = precision; }

void set_products(const ProductRequest& request) {
  ProductRequest wanted = request;
  const char* environment = std::getenv("TANDEM_KERNELS");
  if (wanted.engine == "auto" && environment != nullptr && *environment != 0)
    wanted.engine = environment;
  Process& state = process();
  const std::lock_guard lock(state.mutex);
  state.chosen = choose_products(wanted, library_run(wanted.precision));
  const ProductEngine& engine = state.chosen->engine;
  state.precision = engine.precision;
  state.run_block = engine.precision == Precision::bf16 ? engine.run : gemm<float>;
  state.run = engine.run;
}

}  // namespace tandem::cpu
