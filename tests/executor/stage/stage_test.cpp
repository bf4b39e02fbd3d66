// A stage computes what its layers compute, however the model is cut and the backward is split, bit
// for bit.

#include "executor/stage/stage.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "executor/cpu/kernels.h"
#include "tests/executor/numbers.h"

namespace tandem {
namespace {

constexpr std::int32_t kMicrobatchSize = 2;

template <class T>
std::vector<T> poison(std::int64_t size) {
  return std::vector<T>(static_cast<std::size_t>(size), std::numeric_limits<T>::quiet_NaN());
}

/// In place: the gradient of the input is written over that of the output.
enum class Backward { whole, in_place, split };

/// All that one run of a pipeline leaves: by global names, so that cuts can be compared.
template <class T>
struct Outcome {
  double loss = 0.0;
  std::map<std::string, std::vector<T>> weights, gradients;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

struct RunOptions {
  Backward backward = Backward::whole;
  Recompute recompute = Recompute::none;
  std::int64_t microbatches = 2;
};

/// A model cut at `cuts`, with memory for one microbatch.
template <class T>
class Pipeline {
 public:
  Pipeline(const ModelSpec& model, const std::vector<std::int32_t>& cuts,
           Recompute recompute = Recompute::none)
      : model_(model), scale_(mean_loss_scale(model, kMicrobatchSize, 2)) {
    std::int32_t first = 0;
    for (const std::int32_t last : cuts) {
      stages_.emplace_back(model, LayerRange{first, last}, kMicrobatchSize, scale_, recompute);
      Memory memory;
      const StageSizes& sizes = stages_.back().sizes();
      memory.weights = poison<T>(sizes.parameters);
      stages_.back().initialise(memory.weights, 42);
      memory.gradients.assign(memory.weights.size(), T{});
      memory.output = poison<T>(sizes.boundary);
      memory.input_gradient = poison<T>(sizes.boundary);
      memories_.push_back(std::move(memory));
      first = last;
    }
  }

  Outcome<T> run(const RunOptions& options) {
    Outcome<T> outcome;
    for (std::int64_t k = 0; k < options.microbatches; ++k) {
      const auto sample =
          testing::random_sample<T>(model_, kMicrobatchSize, 10 + static_cast<std::uint64_t>(k));
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        outcome.loss += forward(s, sample);
      }
      for (std::size_t s = stages_.size(); s-- > 0;) {
        if (options.recompute == Recompute::stage) {
          recompute(s, sample);
        }
        backward(s, options.backward);
      }
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (const Tensor& tensor : stages_[s].parameters()) {
        outcome.weights[tensor.name] = cut(memories_[s].weights, tensor);
        outcome.gradients[tensor.name] = cut(memories_[s].gradients, tensor);
      }
    }
    return outcome;
  }

 private:
  struct Memory {
    std::vector<T> weights, gradients, stash, output, input_gradient;
  };

  static std::vector<T> cut(const std::vector<T>& whole, const Tensor& tensor) {
    const auto first = whole.begin() + tensor.offset;
    return {first, first + tensor.size()};
  }
  std::span<const T> input(std::size_t s) const {
    return s > 0 ? std::span<const T>(memories_[s - 1].output) : std::span<const T>();
  }
  double forward(std::size_t s, const Sample<T>& sample) {
    Memory& memory = memories_[s];
    memory.stash = poison<T>(stages_[s].sizes().stash);
    const bool last = s + 1 == stages_.size();
    std::vector<T> scratch = poison<T>(stages_[s].sizes().scratch);
    double loss = 0.0;
    stages_[s].forward(kernels_, {.weights = memory.weights,
                                  .input = input(s),
                                  .sample = &sample,
                                  .stash = memory.stash,
                                  .output = last ? std::span<T>() : memory.output,
                                  .scratch = scratch,
                                  .loss = &loss});
    return loss;
  }
  void recompute(std::size_t s, const Sample<T>& sample) {
    Memory& memory = memories_[s];
    const std::vector<T> stash = std::move(memory.stash);
    memory.stash = poison<T>(stages_[s].sizes().stash);
    stages_[s].recompute(
        kernels_,
        {.weights = memory.weights, .input = input(s), .sample = &sample, .stash = memory.stash});
    EXPECT_EQ(stash, memory.stash);
  }
  void backward(std::size_t s, Backward how) {
    Memory& memory = memories_[s];
    const StageSizes& sizes = stages_[s].sizes();
    const bool last = s + 1 == stages_.size();
    std::vector<T> scratch =
        poison<T>(how == Backward::split ? sizes.kept_gradients : sizes.scratch);
    BackwardSpans<T> spans{
        .weights = memory.weights,
        .input = input(s),
        .output_gradient = last ? std::span<const T>() : memories_[s + 1].input_gradient,
        .stash = memory.stash,
        .scratch = scratch,
        .input_gradient = s > 0 ? std::span<T>(memory.input_gradient) : std::span<T>(),
        .gradients = memory.gradients};
    if (how == Backward::in_place && s > 0 && !last) {
      memory.input_gradient = memories_[s + 1].input_gradient;
      spans.output_gradient = spans.input_gradient = memory.input_gradient;
    }
    if (how != Backward::split) return stages_[s].backward(kernels_, spans);
    spans.gradients = {};
    std::vector<T> inner = poison<T>(sizes.inner_gradient);
    spans.inner_gradient = inner;
    stages_[s].backward_input(kernels_, spans);
    spans.inner_gradient = {};
    inner.clear();
    spans.gradients = memory.gradients;
    spans.weights = {};
    spans.input_gradient = {};
    const std::vector<T> kept = scratch;
    stages_[s].backward_weight(kernels_, spans);
    EXPECT_EQ(kept,
              scratch);  // NaN would differ: all that is claimed was written, and only read here.
  }

  ModelSpec model_;
  double scale_;
  cpu::Kernels<T> kernels_;
  std::vector<Stage<cpu::Kernels<T>>> stages_;
  std::vector<Memory> memories_;
};

struct NamedModel {
  std::string name;
  ModelSpec model;
};
class EveryModel : public ::testing::TestWithParam<NamedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, EveryModel,
                         ::testing::Values(NamedModel{"tied", testing::tiny_gpt()},
                                           NamedModel{"untied", testing::tiny_gpt(false)},
                                           NamedModel{"llama", testing::tiny_llama()},
                                           NamedModel{"tied_llama", testing::tiny_llama(true)},
                                           NamedModel{"qwen", testing::tiny_qwen()},
                                           NamedModel{"chain", testing::tiny_linear()}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(EveryModel, GivesTheSameBitsHoweverItIsCut) {
  const ModelSpec& model = GetParam().model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const Outcome<float> whole = Pipeline<float>(model, {layers}).run({});
  EXPECT_GT(whole.loss, 0.0);
  for (std::int32_t first = 1; first < layers; ++first) {
    EXPECT_EQ(Pipeline<float>(model, {first, layers}).run({}), whole) << first;
    for (std::int32_t second = first + 1; second < layers; ++second) {
      EXPECT_EQ(Pipeline<float>(model, {first, second, layers}).run({}), whole);
    }
  }
  std::vector<std::int32_t> each;
  for (std::int32_t layer = 1; layer <= layers; ++layer) {
    each.push_back(layer);
  }
  EXPECT_EQ(Pipeline<float>(model, each).run({}), whole);
}

TEST_P(EveryModel, GivesTheSameBitsInPlace) {
  const ModelSpec& model = GetParam().model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const Outcome<float> whole = Pipeline<float>(model, {layers}).run({});
  for (std::int32_t first = 1; first < layers; ++first) {
    for (std::int32_t second = first + 1; second < layers; ++second) {
      const std::vector<std::int32_t> cuts{first, second, layers};
      EXPECT_EQ(Pipeline<float>(model, cuts).run({.backward = Backward::in_place}), whole);
    }
  }
}

TEST_P(EveryModel, GivesTheSameBitsWithSplitBackwardAndRecomputation) {
  const ModelSpec& model = GetParam().model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const Outcome<float> plain = Pipeline<float>(model, {layers}).run({});
  for (const std::vector<std::int32_t>& cuts :
       {std::vector<std::int32_t>{layers}, std::vector<std::int32_t>{2, layers}}) {
    for (const Backward how : {Backward::whole, Backward::split}) {
      for (const Recompute recompute :
           {Recompute::none, Recompute::selective, Recompute::full, Recompute::uniform(2),
            Recompute::blocks(1), Recompute::stage}) {
        EXPECT_EQ(
            Pipeline<float>(model, cuts, recompute).run({.backward = how, .recompute = recompute}),
            plain)
            << name(recompute);
      }
    }
  }
}

// Negative control of the equalities above: one microbatch fewer is seen.
TEST_P(EveryModel, DifferentWorkGivesDifferentBits) {
  const ModelSpec& model = GetParam().model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  EXPECT_FALSE(Pipeline<float>(model, {layers}).run({}) ==
               Pipeline<float>(model, {layers}).run({.microbatches = 1}));
}

TEST_P(EveryModel, FloatAgreesWithDouble) {
  const ModelSpec& model = GetParam().model;
  const auto layers = static_cast<std::int32_t>(layers_of(model).size());
  const Outcome<float> narrow = Pipeline<float>(model, {layers}).run({});
  const Outcome<double> wide = Pipeline<double>(model, {layers}).run({});
  EXPECT_NEAR(narrow.loss, wide.loss, 1e-5 * wide.loss);
  for (const auto& [name, gradient] : wide.gradients) {
    double difference = 0.0, length = 0.0;
    const std::vector<float>& other = narrow.gradients.at(name);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      difference += std::pow(static_cast<double>(other[i]) - gradient[i], 2);
      length += gradient[i] * gradient[i];
    }
    EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(length)) << name;
  }
}

/// One stage of the whole model in double, and its loss as a function of the weights.
struct WholeModel {
  explicit WholeModel(const ModelSpec& model)
      : stage(model, {0, static_cast<std::int32_t>(layers_of(model).size())}, kMicrobatchSize,
              mean_loss_scale(model, kMicrobatchSize, 1)),
        sample(testing::random_sample<double>(model, kMicrobatchSize, 5)),
        weights(testing::random_numbers<double>(stage.sizes().parameters, 6, 0.3)),
        stash(poison<double>(stage.sizes().stash)),
        scratch(poison<double>(stage.sizes().scratch)),
        gradients(weights.size()) {}

  double loss() {
    double loss = 0.0;
    stage.forward(kernels, {.weights = weights, .sample = &sample, .stash = stash, .loss = &loss});
    return loss;
  }
  void backward() {
    stage.backward(
        kernels, {.weights = weights, .stash = stash, .scratch = scratch, .gradients = gradients});
  }

  cpu::Kernels<double> kernels;
  Stage<cpu::Kernels<double>> stage;
  Sample<double> sample;
  std::vector<double> weights, stash, scratch, gradients;
};

TEST_P(EveryModel, ComputesTheGradientOfItsLoss) {
  WholeModel whole(GetParam().model);
  whole.loss();
  whole.backward();
  for (const Tensor& tensor : whole.stage.parameters()) {
    const auto first = static_cast<std::size_t>(tensor.offset);
    const auto size = static_cast<std::size_t>(tensor.size());
    EXPECT_LT(testing::gradient_error(
                  std::span(whole.weights).subspan(first, size),
                  std::span<const double>(whole.gradients).subspan(first, size),
                  [&] { return whole.loss(); }, 1e-3),
              1e-9)
        << tensor.name;
  }
}

// What weight tying rests on: the gradient of one shared table is the sum of the two ranges'
// gradients.
TEST(Stage, TiedRangesAddUpToTheGradientOfOneTable) {
  WholeModel whole(testing::tiny_gpt());
  const ElementRange embedding = whole.stage.tied().embedding.value();
  const ElementRange head = whole.stage.tied().head.value();
  ASSERT_EQ(embedding.size(), head.size());
  const auto size = static_cast<std::size_t>(embedding.size());
  std::vector<double> table = testing::random_numbers<double>(embedding.size(), 8, 0.3);
  const auto loss = [&] {
    std::copy(table.begin(), table.end(), whole.weights.begin() + embedding.first);
    std::copy(table.begin(), table.end(), whole.weights.begin() + head.first);
    return whole.loss();
  };
  loss();
  whole.backward();
  std::vector<double> sum(size), embedding_only(size);
  for (std::size_t i = 0; i < size; ++i) {
    embedding_only[i] = whole.gradients[static_cast<std::size_t>(embedding.first) + i];
    sum[i] = embedding_only[i] + whole.gradients[static_cast<std::size_t>(head.first) + i];
  }
  EXPECT_LT(testing::gradient_error(table, sum, loss, 1e-3), 1e-9);
  EXPECT_GT(testing::gradient_error(table, embedding_only, loss, 1e-3), 1e-2);
}

TEST(Stage, KnowsWhereTheTiedTablesAre) {
  const ModelSpec model = testing::tiny_gpt();
  const std::int64_t table = 11 * 8;
  using S = Stage<cpu::Kernels<float>>;
  const S first(model, {0, 2}, 1, 1.0), middle(model, {2, 5}, 1, 1.0), last(model, {5, 6}, 1, 1.0);
  EXPECT_EQ(first.tied().embedding, (ElementRange{0, table}));
  EXPECT_FALSE(first.tied().head);
  EXPECT_FALSE(middle.tied().embedding || middle.tied().head);
  EXPECT_EQ(last.tied().head, (ElementRange{16, 16 + table}));
  const S untied(testing::tiny_gpt(false), {0, 6}, 1, 1.0);
  EXPECT_FALSE(untied.tied().embedding || untied.tied().head);
}

TEST(Stage, BeginsATiedCopyAsTheOriginalAndAnUntiedOneNot) {
  for (const bool tied : {true, false}) {
    const Outcome<float> outcome = Pipeline<float>(testing::tiny_gpt(tied), {3, 6}).run({});
    EXPECT_EQ(outcome.weights.at("embedding.token.weight") ==
                  outcome.weights.at("head.projection.weight"),
              tied);
  }
}

TEST(Stage, NamesAndPlacesEveryTensorOnce) {
  const Stage<cpu::Kernels<float>> stage(testing::tiny_gpt(), {0, 6}, 1, 1.0);
  std::set<std::string> names;
  std::int64_t offset = 0;
  for (const Tensor& tensor : stage.parameters()) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    EXPECT_EQ(tensor.offset, offset) << tensor.name;
    EXPECT_EQ(tensor.decayed, tensor.shape.size() == 2) << tensor.name;
    offset += tensor.size();
  }
  EXPECT_EQ(offset, stage.sizes().parameters);
  for (const char* name :
       {"embedding.token.weight", "embedding.position.weight", "block1.attention.norm.gain",
        "block1.attention.qkv.weight", "block1.attention.projection.bias",
        "block0.mlp.expand.weight", "block1.mlp.projection.bias", "head.norm.bias",
        "head.projection.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Stage, BeginsAsGpt2Does) {
  ModelSpec model = testing::tiny_gpt();
  model.blocks = 8;
  model.width = 64;
  const Stage<cpu::Kernels<double>> stage(model, {0, 18}, 1, 1.0);
  std::vector<double> weights(static_cast<std::size_t>(stage.sizes().parameters));
  stage.initialise(weights, 3);
  for (const Tensor& tensor : stage.parameters()) {
    const std::span<const double> values = std::span(weights).subspan(
        static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.size()));
    double squares = 0.0;
    for (const double value : values) {
      squares += value * value;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
    if (tensor.name.ends_with(".gain")) {
      EXPECT_EQ(deviation, 1.0) << tensor.name;
    } else if (tensor.name.ends_with(".bias")) {
      EXPECT_EQ(deviation, 0.0) << tensor.name;
    } else {
      const bool residual =
          tensor.name.starts_with("block") && tensor.name.ends_with("projection.weight");
      EXPECT_NEAR(deviation / (residual ? 0.005 : 0.02), 1.0, 0.1) << tensor.name;
    }
  }
}

TEST(Stage, InitialWeightsHaveTheDeviationOfTheModel) {
  ModelSpec model = testing::tiny_gpt();
  model.shape = shape_of(model);
  model.architecture = Architecture::transformer;
  const auto initial = [&model](double deviation) {
    model.shape.details.initial_deviation = deviation;
    const Stage<cpu::Kernels<double>> stage(model, {0, 6}, 1, 1.0);
    for (const Tensor& tensor : stage.parameters()) {
      const bool normal = tensor.initial == Initial::normal;
      const bool residual =
          tensor.name.starts_with("block") && tensor.name.ends_with("projection.weight");
      if (!normal) continue;
      EXPECT_EQ(tensor.deviation, residual ? deviation / 2.0 : deviation) << tensor.name;
    }
    std::vector<double> weights(static_cast<std::size_t>(stage.sizes().parameters));
    stage.initialise(weights, 3);
    return weights;
  };
  EXPECT_NE(initial(0.02), initial(0.04));
}

// One stage serves microbatches in flight at the same time: nothing is remembered but in the spans.
TEST(Stage, KeepsNothingBetweenCalls) {
  const ModelSpec model = testing::tiny_gpt();
  const Stage<cpu::Kernels<float>> stage(model, {0, 6}, kMicrobatchSize, 0.1);
  cpu::Kernels<float> kernels;
  std::vector<float> weights(static_cast<std::size_t>(stage.sizes().parameters));
  stage.initialise(weights, 1);
  const auto samples = {testing::random_sample<float>(model, kMicrobatchSize, 1),
                        testing::random_sample<float>(model, kMicrobatchSize, 2)};
  const auto run = [&](bool overlapping) {
    std::vector<float> gradients(weights.size());
    std::vector<std::vector<float>> stashes;
    const auto backward = [&](std::size_t k) {
      std::vector<float> scratch = poison<float>(stage.sizes().scratch);
      stage.backward(
          kernels,
          {.weights = weights, .stash = stashes[k], .scratch = scratch, .gradients = gradients});
    };
    for (const Sample<float>& sample : samples) {
      stashes.push_back(poison<float>(stage.sizes().stash));
      stage.forward(kernels, {.weights = weights, .sample = &sample, .stash = stashes.back()});
      if (!overlapping) {
        backward(stashes.size() - 1);
      }
    }
    if (overlapping) {
      backward(0);
      backward(1);
    }
    return gradients;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(StageDeathTest, AbortsOnSpansOfTheWrongSizeAndLayersThatAreNotThere) {
  using S = Stage<cpu::Kernels<float>>;
  const ModelSpec model = testing::tiny_gpt();
  EXPECT_DEATH(S(model, {3, 7}, 1, 1.0), "check failed.*values: 3 7 6");
  EXPECT_DEATH(S(model, {3, 3}, 1, 1.0), "check failed");
  const S stage(model, {1, 2}, 1, 1.0);
  cpu::Kernels<float> kernels;
  std::vector<float> weights(3);
  EXPECT_DEATH(stage.forward(kernels, {.weights = weights}), "check failed");
}

}  // namespace
}  // namespace tandem
