#pragma once
// Which code computes the products of matrices: chosen once a process, by what is there, what was
// asked for, and what passes the check below.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "executor/cpu/gemm.h"

namespace tandem::cpu {

/// Numbers that products multiply; sums are float in both cases.
enum class Precision : std::uint8_t { f32, bf16 };
std::string_view name(Precision precision);

/// Computes products, on the calling thread alone. May be used by several threads.
struct ProductEngine {
  std::string name;  // such as "onednn"
  Precision precision = Precision::f32;
  void (*run)(const Gemm<float>&) = nullptr;
};

/// Such as "onednn f32".
std::string describe(const ProductEngine& engine);

/// What a user may ask for.
struct ProductRequest {
  std::string engine = "auto";  // auto, portable or onednn
  Precision precision = Precision::f32;
};

struct ChosenProducts {
  ProductEngine engine;
  std::string reason;  // for this one, in words
};

/// Products split by rows and run by several threads of the engine's library, compared bit by bit
/// with the whole on one: nothing when they are equal, otherwise the first that is not, in words.
/// Takes milliseconds.
using ProductRun = void (*)(const Gemm<float>&, int threads);
std::optional<std::string> find_variance(ProductRun run);

/// Why this processor can round factors to bfloat16 with no engine, in words; empty where one can.
std::string why_no_bf16();

/// `library`: oneDNN's for that precision, run on a given number of threads; null where the build
/// or the processor has none. Throws AbsentError when what is asked for is not there or fails the
/// check, UsageError for an unknown engine.
ChosenProducts choose_products(const ProductRequest& request, ProductRun library);

/// Those that Kernels<float> made from now on use. Chosen at the first use: oneDNN's where it is
/// there and passes the check, unless the environment's TANDEM_KERNELS or set_products() asks for
/// others. Of bfloat16 portable ones go first, but where the processor has tiles, which oneDNN
/// uses.
ChosenProducts products();

/// products().engine.run, for as little as a load.
void (*float_product())(const Gemm<float>&);

/// What computes the small products of blocks of attention: the engine where it rounds factors,
/// otherwise the portable one, which needs less preparation.
void (*float_block_product())(const Gemm<float>&);

/// What was asked for last, or f32: of GPUs too, where no engine of this processor is needed.
Precision product_precision();
/// For kernels of GPUs: asks for nothing that this processor lacks.
void set_product_precision(Precision precision);

/// For kernels made from now on. REQUIRES: nothing that must keep its bits is being trained. Throws
/// as choose_products().
void set_products(const ProductRequest& request);

}  // namespace tandem::cpu
