#pragma once
// How the layers of a transformer are built, and what they compute where that costs the same.

#include <cstdint>
#include <string_view>

namespace tandem {

/// The function inside of an MLP.
enum class Activation : std::uint8_t {
  gelu,   // in its tanh form
  silu,   // x·σ(x)
  other,  // priced as GELU, not trained
};
inline constexpr std::size_t kActivations = 3;
/// "gelu", "silu", "other".
std::string_view name(Activation activation);

/// How the frequencies of rotary positions are stretched for long sequences.
enum class RotaryScaling : std::uint8_t {
  none,
  llama3,  // by wavelength: long ones by a factor, short ones not (Llama 3.1's)
  other,   // not trained
};
inline constexpr std::size_t kRotaryScalings = 3;
/// "none", "llama3", "other".
std::string_view name(RotaryScaling scaling);

/// Positions that turn queries and keys: of a head of w channels, i and i + w/2 are a pair, turned
/// by position · θ^(−2i/w).
struct RotaryPositions {
  double theta = 0.0;  // 0: not known
  RotaryScaling scaling = RotaryScaling::none;
  // Of llama3: wavelengths beyond original_positions / low_frequency_factor are stretched `factor`
  // times, those below original_positions / high_frequency_factor are not, others in between.
  double factor = 1.0, low_frequency_factor = 1.0, high_frequency_factor = 4.0;
  std::int32_t original_positions = 8192;
  friend bool operator==(const RotaryPositions&, const RotaryPositions&) = default;
};

/// What layers compute, at a price that does not depend on it.
struct LayerDetails {
  double norm_epsilon = 1e-5;       // added to variances and mean squares
  double initial_deviation = 0.02;  // of matrices and tables, where training begins with none
  Activation activation = Activation::gelu;
  std::int32_t sliding_window = 0;  // tokens that one attends to at most; 0: to all before it
  RotaryPositions rotary = {};      // where no positions are learned
  friend bool operator==(const LayerDetails&, const LayerDetails&) = default;
};

/// Queries, keys and values that are made of few channels which all heads share (multi-head latent
/// attention, DeepSeek-V2: arXiv 2405.04434, section 2.1). Of a head's channels the last
/// `rotary_width` are turned by positions; those of keys are the same for all heads.
struct LatentAttention {
  std::int32_t key_value_rank = 0;  // channels that keys and values are made of; 0: no latent ones
  std::int32_t query_rank = 0;      // that queries are made of; 0: of the stream itself
  std::int32_t rotary_width = 0;
  std::int32_t value_width = 0;  // channels of a head's values
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// How a transformer's layers are built.
struct TransformerShape {
  std::int32_t key_value_heads = 1;  // each of them for as many heads
  std::int32_t head_width = 1;       // channels of a head
  std::int32_t mlp_width = 1;
  std::int32_t positions = 0;  // rows of the table of learned positions; 0: rotary ones
  std::int32_t segments = 0;   // rows of BERT's table of token types
  std::int32_t experts = 0;    // that each mlp is made of, each of them mlp_width wide; 0: one mlp
  std::int32_t experts_per_token = 0;  // that compute; a product d × experts chooses them
  std::int32_t shared_experts = 0;     // as wide, that compute for every token besides
  std::int32_t dense_blocks = 0;       // so many first blocks have one mlp and no experts,
  std::int32_t dense_mlp_width = 0;    // so wide
  bool expert_bias = false;            // of the choice of experts, one number for each
  bool causal = true;                  // else each token attends to all
  bool rms_norm = false;               // norms scale; else they shift too
  bool norm_first = true;      // before attention and mlp and in the head; else behind each of
                               // them and the embedding
  bool output_norm = false;    // what attention and mlp make has a norm too, as in Gemma 2
  bool head_norm = false;      // queries and keys have a norm for each head's channels
  bool query_bias = true;      // queries, keys and values have
  bool attention_bias = true;  // the projection behind attention has
  bool mlp_bias = true;
  bool gated = false;          // the mlp has a third matrix, whose product gates it
  bool dropout = true;         // its masks are kept
  bool masked_head = false;    // a product d × d, GELU and norm before the vocabulary's, which
                               // has a bias
  bool pooler = false;         // a product d × d of each sample's first token
  bool sentence_head = false;  // two classes of what the pooler made
  LatentAttention latent = {};
  LayerDetails details = {};
  friend bool operator==(const TransformerShape&, const TransformerShape&) = default;

  constexpr bool is_latent() const { return latent.key_value_rank > 0; }
  /// Channels of a head's values, and of what it makes of them.
  constexpr std::int32_t value_width() const {
    return is_latent() ? latent.value_width : head_width;
  }
};

}  // namespace tandem
