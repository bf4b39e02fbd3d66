#pragma once
// Calibration: what the analytic costs of a kind of machine lack, in constants that tandem
// calibrate fits to measured iterations.

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem {

/// Where an attention layer's scores go.
enum class AttentionKernel : std::uint8_t {
  plain,  // scores of all pairs of tokens go through memory
  flash,  // they don't: the causal half is computed, and once more in the backward
};
inline constexpr std::size_t kAttentionKernels = 2;
/// "plain", "flash".
constexpr std::string_view name(AttentionKernel kernel) {
  return kernel == AttentionKernel::plain ? "plain" : "flash";
}

/// The defaults say nothing beyond data sheets.
struct Calibration {
  double product_fraction = 0.65;  // of a device's peak, by the flops of products
  double product_s = 0.0;          // a product takes on the device beyond its flops or bytes
  double memory_fraction = 0.8;    // of the memory's rate
  double link_fraction = 0.8;      // of a link's rate, within a node
  double network_fraction = 0.8;   // the same between nodes
  double protocol_s = 0.0;  // a sum waits for, before its bytes go at the full rate of the links;
                            // 0: nothing but the links' latencies
  double low_latency_bytes_per_s = 0.0;  // of a sum whose bytes wait for nothing; 0: not so
  double sum_s = 0.0;       // a sum over those that share a layer takes beyond its links, for each
                            // device but one
  double transfer_s = 0.0;  // a transfer takes beyond its links
  double launch_s = 0.0;    // the host takes for a kernel, while the device works
  double unfused_launches = 0.0;  // more of an attention layer whose softmax can't be fused
  double loss_passes = 1.0;       // over the logits, each way
  double batch_s = 0.0;           // each device takes for a batch, beside its layers
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// What training software is seen to take, where nobody has measured the reader's own: of 720
/// iterations of Megatron's GPTs on A100s (vTrain's), and of nccl-tests on as many; rounded. A
/// device's own replace them.
inline constexpr Calibration kTypicalConstants{.product_fraction = 0.76,
                                               .product_s = 53e-6,
                                               .memory_fraction = 0.9,
                                               .link_fraction = 0.73,
                                               .network_fraction = 0.6,
                                               .protocol_s = 60e-6,
                                               .low_latency_bytes_per_s = 2e9,
                                               .sum_s = 17e-6,
                                               .transfer_s = 57e-6,
                                               .launch_s = 90e-6,
                                               .unfused_launches = 13.4,
                                               .loss_passes = 13.7,
                                               .batch_s = 0.45e-3};

/// Of predictions by some constants: so many measured iterations, which these were not fitted to,
/// and how far off four fifths of them are at most.
struct PredictionSpread {
  std::int64_t rows = 0;
  double within_80 = 0.0;  // of the measured time
  friend bool operator==(const PredictionSpread&, const PredictionSpread&) = default;
};
/// Of kTypicalConstants: vTrain's 109 iterations on 64 to 512 A100s.
inline constexpr PredictionSpread kTypicalSpread{.rows = 109, .within_80 = 0.11};

/// One of them: its key and its bounds.
struct CalibrationConstant {
  std::string_view key;  // in calibration.json
  double Calibration::*member;
  double least, most;
  std::string_view meaning;
  bool required = true;  // in files
};

namespace calibration {

inline constexpr double kLeastFraction = 1e-3;  // of something
inline constexpr double kLeastTime = 1e-9, kMostTime = 10.0;
inline constexpr double kLeastCount = 1e-3, kMostCount = 1e3;
inline constexpr double kLeastBytesPerS = 1e-3, kMostBytesPerS = 1e15;

inline constexpr std::array<CalibrationConstant, 13> kConstants{{
    {"product_fraction", &Calibration::product_fraction, kLeastFraction, 1.0,
     "of peak flops, by products"},
    {"product_s", &Calibration::product_s, kLeastTime, kMostTime, "s more for a product"},
    {"memory_fraction", &Calibration::memory_fraction, kLeastFraction, 1.0, "of the memory's rate"},
    {"link_fraction", &Calibration::link_fraction, kLeastFraction, 1.0, "of a link's rate"},
    {"network_fraction", &Calibration::network_fraction, kLeastFraction, 1.0,
     "of the rate of a link between nodes", false},
    {"protocol_s", &Calibration::protocol_s, kLeastTime, kMostTime,
     "s before a sum's bytes go at full rate", false},
    {"low_latency_bytes_per_s", &Calibration::low_latency_bytes_per_s, kLeastBytesPerS,
     kMostBytesPerS, "bytes/s of a sum that waits for nothing", false},
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

/// One of its extents.
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
