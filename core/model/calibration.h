#pragma once
// Calibration: what the analytic costs of a kind of machine lack, in constants that tandem
// calibrate fits to measured iterations (simulator/cost/prices.md, "Calibrated costs").

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem {

enum class AttentionKernel : std::uint8_t {
  plain,  // scores of all pairs of tokens go through memory
  flash,  // they don't: the causal half is computed, and once more in the backward
};
inline constexpr std::size_t kAttentionKernels = 2;
constexpr std::string_view name(AttentionKernel kernel) {
  return kernel == AttentionKernel::plain ? "plain" : "flash";
}

/// The defaults say nothing beyond data sheets.
struct Calibration {
  double product_fraction = 0.6;  // of a device's peak, by the flops of products
  double product_s = 0.0;         // a product takes on the device beyond its flops or bytes
  double memory_fraction = 0.8;   // of the memory's rate
  double link_fraction = 0.8;     // of a link's rate
  double sum_s = 0.0;       // a sum over those that share a layer takes beyond its links, for each
                            // device but one
  double transfer_s = 0.0;  // a transfer takes beyond its links
  double launch_s = 0.0;    // the host takes for a kernel, while the device works
  double unfused_launches = 0.0;  // more of an attention layer whose softmax can't be fused
  double loss_passes = 1.0;       // over the logits, each way
  double batch_s = 0.0;           // each device takes for a batch, beside its layers
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

struct CalibrationConstant {
  std::string_view key;  // in calibration.json
  double Calibration::*member;
  double least, most;
  std::string_view meaning;
};

namespace calibration {

inline constexpr double kLeastFraction = 1e-3;  // of something
inline constexpr double kLeastTime = 1e-9, kMostTime = 10.0;
inline constexpr double kLeastCount = 1e-3, kMostCount = 1e3;

inline constexpr std::array<CalibrationConstant, 10> kConstants{{
    {"product_fraction", &Calibration::product_fraction, kLeastFraction, 1.0,
     "of peak flops, by products"},
    {"product_s", &Calibration::product_s, kLeastTime, kMostTime, "s more for a product"},
    {"memory_fraction", &Calibration::memory_fraction, kLeastFraction, 1.0, "of the memory's rate"},
    {"link_fraction", &Calibration::link_fraction, kLeastFraction, 1.0, "of a link's rate"},
    {"sum_s", &Calibration::sum_s, kLeastTime, kMostTime,
     "s more for a sum within a layer, for each device but one"},
    {"transfer_s", &Calibration::transfer_s, kLeastTime, kMostTime, "s more for a transfer"},
    {"launch_s", &Calibration::launch_s, kLeastTime, kMostTime, "s of the host for a kernel"},
    {"unfused_launches", &Calibration::unfused_launches, kLeastCount, kMostCount,
     "kernels more where softmax can't be fused"},
    {"loss_passes", &Calibration::loss_passes, kLeastCount, kMostCount,
     "passes of the loss over the logits, each way"},
    {"batch_s", &Calibration::batch_s, kLeastTime, kMostTime, "s of each device for a batch"},
}};

}  // namespace calibration

inline constexpr auto& kCalibrationConstants = calibration::kConstants;
static_assert(kCalibrationConstants.size() <= 16, "few enough to be held to what they predict");

/// The least and the most of what a fit has seen.
struct FittedExtent {
  std::int64_t least = 0, most = 0;
  bool has(std::int64_t value) const { return least <= value && value <= most; }
  friend bool operator==(const FittedExtent&, const FittedExtent&) = default;
};

/// Of the iterations that constants were fitted to. Beyond them they are a guess.
struct FittedRange {
  FittedExtent devices, tensor, depth, width, microbatch_size, model_width;
  friend bool operator==(const FittedRange&, const FittedRange&) = default;
};

struct FittedRangeRow {
  std::string_view key;  // in calibration.json
  FittedExtent FittedRange::*member;
  std::string_view what;
};
inline constexpr std::array<FittedRangeRow, 6> kFittedRangeRows{{
    {"devices", &FittedRange::devices, "devices"},
    {"tensor", &FittedRange::tensor, "tensor degrees"},
    {"depth", &FittedRange::depth, "depths"},
    {"width", &FittedRange::width, "widths"},
    {"microbatch_size", &FittedRange::microbatch_size, "microbatch sizes"},
    {"model_width", &FittedRange::model_width, "widths of a model"},
}};

}  // namespace tandem
