// A model whose sequences are worked on in slices computes what it computes of whole ones: exactly
// in dyadic numbers, to rounding else, and to the bit however backwards are split and stashes made
// again.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "executor/data/data.h"
#include "executor/stage/stage.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

constexpr std::int32_t kSamples = 2;
using Lengths = std::vector<std::int32_t>;

template <class T>
std::vector<T> unwritten(std::int64_t size) {
  return std::vector<T>(static_cast<std::size_t>(size), std::numeric_limits<T>::quiet_NaN());
}

/// By tensor.
template <class T>
using Gradients = std::map<std::string, std::vector<T>>;

struct SliceRun {
  Lengths lengths = {};  // empty: whole
  Recompute recompute = Recompute::none;
  bool split = false;
  bool loses_context = false;   // what later slices add to the gradients of keys and values
  bool mixes_contexts = false;  // a slice finds that of the first one in the place of all
};

/// One stage of a whole model over one microbatch in slices.
template <class T>
class SlicedModel {
 public:
  SlicedModel(const ModelSpec& model, const SliceRun& run) : run_(run) {
    const auto layers = static_cast<std::int32_t>(layers_of(model).size());
    const Data data(model, kSamples, 3);
    for (const Slice& slice : slices_of(model.sequence, run.lengths)) {
      stages_.emplace_back(model, LayerRange{0, layers}, kSamples,
                           mean_loss_scale(model, kSamples, 1), run.recompute, slice);
      data.fill(5, slice, samples_.emplace_back());
      share_.push_back(static_cast<double>(slice.tokens) / model.sequence);
    }
    const StageSizes& sizes = stages_.front().sizes();
    weights_ = testing::random_numbers<T>(sizes.parameters, 6, 0.3);
    // Halves, so that sums of products are exact.
    if (model.architecture == Architecture::linear) stages_.front().initialise(weights_, 4);
    gradients_.assign(weights_.size(), T{});
    context_gradient_ = unwritten<T>(sizes.context_gradient);
  }

  std::vector<T>& weights() { return weights_; }

  /// The mean loss over all tokens.
  double forward() {
    stashes_.clear();
    pieces_.clear();
    contexts_.clear();
    context_pieces_.clear();
    double sum = 0.0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      hold(stages_[i].sizes().stash_pieces, stashes_, pieces_);
      hold(stages_[i].sizes().context_pieces, contexts_, context_pieces_);
      double loss = 0.0;
      std::vector<T> scratch = unwritten<T>(stages_[i].sizes().scratch);
      const auto earlier = earlier_of(i);
      stages_[i].forward(kernels_, {.weights = weights_,
                                    .sample = &samples_[i],
                                    .pieces = pieces_[i],
                                    .context = context_pieces_[i],
                                    .scratch = scratch,
                                    .loss = &loss,
                                    .earlier_pieces = earlier});
      sum += share_[i] * loss;
    }
    return sum;
  }

  Gradients<T> backward() {
    std::vector<std::vector<T>> kept(stages_.size());
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const StageSizes& sizes = stages_[i].sizes();
      kept[i] = unwritten<T>(run_.split ? sizes.kept_gradients : sizes.scratch);
      std::vector<T> inner = unwritten<T>(sizes.inner_gradient);
      const auto earlier = earlier_of(i);
      if (run_.recompute == Recompute::stage) make_again(i);
      const BackwardSpans<T> spans{.weights = weights_,
                                   .pieces = pieces_[i],
                                   .inner_gradient = inner,
                                   .scratch = kept[i],
                                   .gradients = gradients_,
                                   .earlier_pieces = earlier,
                                   .context_gradient = context_gradient_};
      run_.split ? stages_[i].backward_input(kernels_, spans)
                 : stages_[i].backward(kernels_, spans);
      if (run_.loses_context) std::ranges::fill(context_gradient_, T{});
    }
    // In the order of the backwards, as sums of gradients are made.
    for (std::size_t i = stages_.size(); run_.split && i-- > 0;) {
      stages_[i].backward_weight(
          kernels_, {.pieces = pieces_[i], .scratch = kept[i], .gradients = gradients_});
    }
    Gradients<T> gradients;
    for (const Tensor& tensor : stages_.front().parameters()) {
      const auto first = gradients_.begin() + tensor.offset;
      gradients[tensor.name] = {first, first + tensor.size()};
    }
    return gradients;
  }

 private:
  using Pieces = std::vector<std::span<T>>;

  using Memory = std::vector<std::vector<std::vector<T>>>;

  static void hold(const std::vector<std::int64_t>& sizes, Memory& all,
                   std::vector<Pieces>& pieces) {
    std::vector<std::vector<T>>& memory = all.emplace_back();
    for (const std::int64_t size : sizes) memory.push_back(unwritten<T>(size));
    pieces.emplace_back(memory.begin(), memory.end());
  }
  /// The stash of a slice that is nowhere but in its context.
  void make_again(std::size_t slice) {
    for (std::vector<T>& piece : stashes_[slice]) piece = unwritten<T>(std::ssize(piece));
    pieces_[slice] = {stashes_[slice].begin(), stashes_[slice].end()};
    const auto earlier = earlier_of(slice);
    stages_[slice].recompute(kernels_, {.weights = weights_,
                                        .sample = &samples_[slice],
                                        .pieces = pieces_[slice],
                                        .earlier_pieces = earlier});
  }
  std::vector<std::span<const std::span<T>>> earlier_of(std::size_t slice) const {
    const bool again = run_.recompute == Recompute::stage;
    const std::vector<Pieces>& all = again ? context_pieces_ : pieces_;
    std::vector<std::span<const std::span<T>>> earlier(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(slice));
    if (run_.mixes_contexts) std::ranges::fill(earlier, all.front());
    return earlier;
  }

  SliceRun run_;
  cpu::Kernels<T> kernels_;
  std::vector<Stage<cpu::Kernels<T>>> stages_;
  std::vector<Sample<T>> samples_;
  std::vector<double> share_;
  std::vector<T> weights_, gradients_, context_gradient_;
  Memory stashes_, contexts_;
  std::vector<Pieces> pieces_, context_pieces_;
};

template <class T>
Gradients<T> gradients_of(const ModelSpec& model, const SliceRun& run) {
  SlicedModel<T> sliced(model, run);
  sliced.forward();
  return sliced.backward();
}

/// Of `other` from `expected`, relative to its length.
template <class T>
double distance(const std::vector<T>& other, const std::vector<T>& expected) {
  double difference = 0.0, length = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(other[i] - expected[i]), 2);
    length += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / length);
}

ModelSpec text_model() {
  ModelSpec model = testing::tiny_gpt();
  model.vocabulary = 256;
  return model;
}

ModelSpec text_of(ModelSpec model) {
  model.vocabulary = 256;
  return model;
}

/// Longer than the blocks of queries and of keys that kernels work in.
ModelSpec long_model() {
  ModelSpec model = text_model();
  model.sequence = 330;
  return model;
}

std::vector<Lengths> slicings() { return {{6}, {3, 3}, {4, 2}, {1, 5}, {2, 2, 2}, {1, 2, 1, 2}}; }

TEST(Slices, HaveTheGradientsOfTheWholeSequence) {
  const auto compare = [](const ModelSpec& model, const Lengths& lengths) {
    const double loss = SlicedModel<double>(model, {}).forward();
    EXPECT_NEAR(SlicedModel<double>(model, {.lengths = lengths}).forward(), loss, 1e-13 * loss);
    const Gradients<double> whole = gradients_of<double>(model, {});
    for (const auto& [name, gradient] : gradients_of<double>(model, {.lengths = lengths}))
      EXPECT_LT(distance(gradient, whole.at(name)), 1e-12) << name << " " << lengths.size();
  };
  for (const Lengths& lengths : slicings()) {
    compare(text_model(), lengths);
    compare(text_of(testing::tiny_llama()), lengths);
    compare(text_of(testing::tiny_qwen()), lengths);
  }
  for (const Lengths& lengths : {Lengths{300, 30}, Lengths{20, 310}, Lengths{65, 200, 65}})
    compare(long_model(), lengths);
}

TEST(Slices, HaveTheGradientOfTheirLoss) {
  const ModelSpec model = text_model();
  SlicedModel<double> sliced(model, {.lengths = {3, 1, 2}});
  sliced.forward();
  std::vector<double> gradient;
  const Stage<cpu::Kernels<double>> layout(model, {0, 6}, kSamples, 1.0);
  const Gradients<double> gradients = sliced.backward();
  for (const Tensor& tensor : layout.parameters())
    gradient.insert(gradient.end(), gradients.at(tensor.name).begin(),
                    gradients.at(tensor.name).end());
  EXPECT_LT(testing::gradient_error(
                sliced.weights(), gradient, [&] { return sliced.forward(); }, 1e-3),
            1e-9);
}

// Sums of dyadic numbers are exact in any order.
TEST(Slices, OfALinearModelHaveTheBitsOfTheWhole) {
  ModelSpec model = testing::tiny_linear();
  model.sequence = 8;
  const Gradients<double> whole = gradients_of<double>(model, {});
  for (const Lengths& lengths : {Lengths{4, 4}, Lengths{1, 7}, Lengths{3, 3, 2}}) {
    for (const bool split : {false, true}) {
      EXPECT_EQ(gradients_of<double>(model, {.lengths = lengths, .split = split}), whole);
    }
  }
}

TEST(Slices, HaveTheSameBitsHoweverTheyAreMadeAgain) {
  for (const Lengths& lengths : slicings()) {
    const ModelSpec model =
        text_of(lengths.size() % 2 == 0 ? testing::tiny_gpt() : testing::tiny_qwen());
    const Gradients<float> plain = gradients_of<float>(model, {.lengths = lengths});
    for (const Recompute recompute :
         {Recompute::none, Recompute::selective, Recompute::full, Recompute::uniform(2),
          Recompute::blocks(1), Recompute::stage}) {
      for (const bool split : {false, true}) {
        EXPECT_TRUE(gradients_of<float>(
                        model, {.lengths = lengths, .recompute = recompute, .split = split}) ==
                    plain)
            << name(recompute) << split << lengths.size();
      }
    }
  }
}

// Negative control: keys and values of another slice of as many tokens.
TEST(Slices, ThatFindOtherContextsHaveOtherGradients) {
  SliceRun run{.lengths = {2, 2, 2}, .recompute = Recompute::stage};
  const Gradients<float> right = gradients_of<float>(text_model(), run);
  run.mixes_contexts = true;
  const Gradients<float> wrong = gradients_of<float>(text_model(), run);
  for (const char* tensor : {"embedding.token.weight", "block0.attention.qkv.weight"})
    EXPECT_GT(distance(wrong.at(tensor), right.at(tensor)), 1e-3) << tensor;
}

TEST(Slices, OfOneAreTheWholeToTheBit) {
  EXPECT_EQ(gradients_of<float>(text_model(), {.lengths = {6}}),
            gradients_of<float>(text_model(), {}));
}

// Negative control. The head is above all attention, and lacks nothing.
TEST(Slices, WithoutWhatLaterOnesAddAreFarFromTheWhole) {
  const Gradients<double> whole = gradients_of<double>(text_model(), {});
  const Gradients<double> lost =
      gradients_of<double>(text_model(), {.lengths = {3, 3}, .loses_context = true});
  EXPECT_GT(
      distance(lost.at("block1.attention.qkv.weight"), whole.at("block1.attention.qkv.weight")),
      1e-2);
  EXPECT_GT(distance(lost.at("embedding.token.weight"), whole.at("embedding.token.weight")), 1e-3);
  EXPECT_LT(distance(lost.at("head.projection.weight"), whole.at("head.projection.weight")), 1e-12);
}

TEST(Slices, OfSamplesArePartsOfThem) {
  ModelSpec chain = testing::tiny_linear();
  chain.sequence = 6;
  for (const ModelSpec& model : {text_model(), chain}) {
    const Data data(model, kSamples, 9);
    Sample<float> whole, part;
    data.fill(4, whole);
    data.fill(4, slices_of(6, Lengths{1, 3, 2})[1], part);
    const auto expect_part = [](const auto& values, const auto& of, std::size_t width) {
      ASSERT_EQ(values.size(), kSamples * 3 * width * (of.empty() ? 0 : 1));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / (3 * width), at = i % (3 * width);
        EXPECT_EQ(values[i], of[row * 6 * width + width + at]);
      }
    };
    expect_part(part.tokens, whole.tokens, 1);
    expect_part(part.targets, whole.targets, 1);
    expect_part(part.inputs, whole.inputs, 2);
    expect_part(part.expected, whole.expected, 2);
  }
}

TEST(SlicesDeathTest, AbortWhereTheyAreNotTheSequence) {
  EXPECT_DEATH(slices_of(6, Lengths{3, 2}), "check failed");
  EXPECT_DEATH(slices_of(6, Lengths{3, 4}), "check failed");
  EXPECT_DEATH(slices_of(6, Lengths{6, 0}), "check failed");
}

}  // namespace
}  // namespace tandem
