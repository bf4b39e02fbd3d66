#include "executor/forwards.h"

#include <algorithm>
#include <map>
#include <stop_token>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/lower/lower.h"
#include "core/schedule/passes.h"
#include "core/schedule/schedule.h"
#include "executor/checkpoint/named_parts.h"
#include "executor/train.h"

namespace tandem {
namespace {

/// The newest weights of a folder, for a run that has no batches before it, and whose model may
/// read fewer tokens: of learned positions the first.
class FolderWeights final : public TrainingStart<float> {
 public:
  explicit FolderWeights(const ModelFolder& folder) : folder_(folder) {
    for (LayerTensor& each : tensors_of(folder.model)) {
      std::string name = each.tensor.name;
      whole_.emplace(std::move(name), std::move(each.tensor));
    }
  }
  std::int64_t batches() const override { return 0; }
  std::int64_t steps(const Tensor& /*tensor*/) const override { return 0; }
  bool read(Plane plane, const Tensor& tensor, std::span<float> values) const override {
    if (plane != kNewestWeights) return false;
    const Tensor& whole = whole_.at(tensor.name);
    if (whole.size() == tensor.size()) {
      begin_plane<float>(*folder_.weights, plane, whole, values);
      return true;
    }
    std::vector<float> all(static_cast<std::size_t>(whole.size()));
    begin_plane<float>(*folder_.weights, plane, whole, std::span(all));
    std::copy_n(all.begin(), values.size(), values.begin());
    return true;
  }

 private:
  const ModelFolder& folder_;
  std::map<std::string, Tensor> whole_;
};

TrainingSetup<float> setup_of(const ModelSpec& model, const ForwardLayout& layout,
                              const Program& program, const Data& data,
                              const FolderWeights& weights) {
  TrainingSetup<float> setup;
  setup.stage = {.model = model,
                 .microbatch_size = 1,
                 .optimizer = {.kind = OptimizerKind::sgd},  // keeps no state, and is never asked
                 .data = &data};
  setup.layers = layout.stages;
  setup.slots = count_slots(program);
  setup.start = &weights;
  setup.keep_timeline = false;
  setup.pause_every = 1;
  return setup;
}

}  // namespace

Program program_of_forwards(const ForwardLayout& layout) {
  Schedule schedule =
      make_schedule(plain_schedule(), {.devices = static_cast<std::uint16_t>(layout.stages.size()),
                                       .microbatches = layout.microbatches});
  keep_forwards(schedule);
  return lower(schedule);
}

std::vector<double> losses_of(const ModelFolder& folder, const ForwardLayout& layout,
                              const Data& data, std::int64_t count,
                              const std::function<void(std::int64_t)>& on_samples) {
  TANDEM_CHECK(count >= 1, count);
  const Program program = program_of_forwards(layout);
  const FolderWeights weights(folder);
  TrainingSetup<float> setup = setup_of(folder.model, layout, program, data, weights);
  const std::int64_t m = layout.microbatches;
  setup.batches = (count + m - 1) / m;
  setup.on_pause = [&](std::int64_t batches, auto) {
    on_samples(std::min(m, count - (batches - 1) * m));
  };
  std::vector<double> losses = train_on_cpu(program, setup).losses;
  losses.resize(static_cast<std::size_t>(count));
  return losses;
}

void go_on(const ModelFolder& folder, const std::vector<LayerRange>& stages,
           std::vector<std::int32_t>& tokens, std::int64_t length, const ChooseToken& choose) {
  constexpr std::int64_t kMostRead = 64;  // tokens at once, so that memory is bounded
  const auto prompt = std::ssize(tokens);
  if (prompt >= length) return;
  const ForwardLayout layout{.stages = stages, .microbatches = 1};
  const Program program = program_of_forwards(layout);
  const FolderWeights weights(folder);
  ModelSpec model = folder.model;
  model.sequence = static_cast<std::int32_t>(length);
  Data data(model);
  Slice slice{};  // that is read, or was read last
  const auto read_on = [&] {
    const std::int32_t seen = slice.kept + slice.tokens;
    slice.tokens = static_cast<std::int32_t>(std::min(kMostRead, std::ssize(tokens) - seen));
    slice.kept = seen;
    slice.later = model.sequence - seen - slice.tokens;
    data.set_text(std::span(tokens).subspan(static_cast<std::size_t>(seen),
                                            static_cast<std::size_t>(slice.tokens)));
  };
  read_on();
  TrainingSetup<float> setup = setup_of(model, layout, program, data, weights);
  setup.stage.text = &slice;
  // The prompt, then each token that is chosen, but for the last.
  setup.batches = (prompt + kMostRead - 1) / kMostRead + length - prompt - 1;
  std::vector<float> logits(static_cast<std::size_t>(model.vocabulary));
  setup.on_logits = [&](std::int64_t /*microbatch*/, std::span<const float> all) {
    const auto last = static_cast<std::size_t>(slice.tokens) - 1;
    std::ranges::copy(all.subspan(last * logits.size(), logits.size()), logits.begin());
  };
  std::stop_source end;
  setup.stop = end.get_token();
  setup.on_pause = [&](std::int64_t batches, auto) {
    const bool all_read = slice.kept + slice.tokens == std::ssize(tokens);
    if (all_read && !choose(logits)) {
      end.request_stop();
    } else if (batches < setup.batches) {
      read_on();
    }
  };
  train_on_cpu(program, setup);
}

}  // namespace tandem
