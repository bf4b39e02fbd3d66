#pragma once
// Which activations a backward computes again, so that they need not be kept.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

/// Blocks are made again from their inputs, which alone are kept, right before each one's backward
/// (Chen et al. 2016, arXiv:1604.06174; Megatron's "full" granularity).
struct Recompute {
  enum class Kind : std::uint8_t {
    none,
    selective,  // inside the layers: what is cheap to make again
    uniform,    // `count` blocks at a time; the stage's last ones may be fewer
    blocks,     // the first `count` blocks of a stage, each by itself
    stage,      // the whole forward, by an op of its own. Any other is part of the backward
  };
  Kind kind = Kind::none;
  std::uint16_t count = 0;

  static const Recompute none, selective, full, stage;
  static constexpr Recompute uniform(std::uint16_t count) { return {Kind::uniform, count}; }
  static constexpr Recompute blocks(std::uint16_t count) { return {Kind::blocks, count}; }

  /// Whether blocks are made again from their inputs.
  constexpr bool by_block() const { return kind == Kind::uniform || kind == Kind::blocks; }
  friend auto operator<=>(const Recompute&, const Recompute&) = default;
};
inline constexpr Recompute Recompute::none{};
inline constexpr Recompute Recompute::selective{Kind::selective, 0};
inline constexpr Recompute Recompute::full{Kind::uniform, 1};
inline constexpr Recompute Recompute::stage{Kind::stage, 0};

/// What parse_recompute() takes.
inline constexpr std::string_view kRecomputeNames = "none|selective|full|uniform:N|blocks:N|stage";

/// "none", "selective", "full", "uniform:2", "blocks:3", "stage".
std::string name(Recompute recompute);
/// Empty: not one of these.
std::optional<Recompute> parse_recompute(std::string_view text);

}  // namespace tandem
