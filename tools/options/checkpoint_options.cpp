#include "tools/options/checkpoint_options.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/files/read.h"
#include "core/model/plan.h"
#include "executor/checkpoint/hugging_face_weights.h"
#include "tools/cli/notices.h"

namespace tandem::tools {

namespace {

constexpr std::int64_t kMostSteps = 100'000'000;

/// What tells two models apart, but for their names; empty: nothing.
std::string difference_of(const ModelSpec& plan, ModelSpec other) {
  other.name = plan.name;
  if (plan == other) return {};
  const auto say = [](const ModelSpec& model) {
    return fmt::format("{} with {} blocks, width {}, {} heads, sequence {}, vocabulary {}, {}",
                       name(model.architecture), model.blocks, model.width, model.heads,
                       model.sequence, model.vocabulary, model.tied ? "tied" : "untied");
  };
  return fmt::format("is of a model {}; the plan's is {}", say(other), say(plan));
}

void check_belongs(const Checkpoint& checkpoint, const Plan& plan) {
  const CheckpointInfo& info = checkpoint.info();
  if (const std::string difference = difference_of(plan.model, info.model); !difference.empty())
    throw InputError(fmt::format("{} {}", checkpoint.path(), difference));
  if (info.optimizer.kind == plan.optimizer.kind) return;
  throw InputError(fmt::format(
      "{} has the state of {}; the plan trains by {}: --init {} begins with its weights alone",
      checkpoint.path(), name(info.optimizer.kind), name(plan.optimizer.kind), checkpoint.path()));
}

/// A folder of checkpoints stands for the newest, every byte of which is checked.
std::string folder_with_weights(const std::string& path) {
  return holds_checkpoint(path) ? Checkpoint(path).path() : path;
}

}  // namespace

void add_checkpoint_options(Options& options) {
  options
      .value("resume", "DIR",
             "go on from a checkpoint, or from the newest in a folder; --steps counts from the "
             "start of training")
      .value("init", "DIR",
             "begin with the weights of a checkpoint or a folder of Hugging Face's library")
      .value("checkpoint", "DIR", "keep checkpoints in this folder; at least one, at the end")
      .value("checkpoint-every", "N", "steps from one checkpoint to the next (default: none)")
      .flag(
          "buddy",
          "keep copies of the newest steps in memory: ranks that tandem launch starts again go on "
          "from these")
      .value("keep", "K", "checkpoints to keep, the newest; 0: all (default 2)")
      .value("on-checkpoint-error", "ACTION",
             "continue|stop when one can't be written (default: continue, with a note)");
}

std::string copies_folder(const Options& options, const RankPlace* place) {
  if (!options.has("buddy")) return {};
  if (place != nullptr && !place->copies.empty()) return place->copies;
  refuse(options,
         "--buddy is for ranks that \"tandem launch --restarts N\" starts: nobody else keeps what "
         "they leave in memory");
}

std::int64_t newest_checkpoint_of(const Options& options) {
  const std::vector<FoundCheckpoint> found = checkpoints_in(options.text("checkpoint"));
  return found.empty() ? 0 : found.back().batches;
}

Beginning beginning_of(const Options& options, const Plan& plan, bool restarted,
                       std::unique_ptr<CopiedState> copy) {
  if (options.has("resume") && options.has("init"))
    refuse(options, "--resume goes on from a checkpoint, --init begins anew: give one of them");
  Beginning beginning;
  const bool goes_on =
      restarted && options.has("checkpoint") && holds_checkpoint(options.text("checkpoint"));
  const std::vector<FoundCheckpoint> found = checkpoints_in(options.text("checkpoint"));
  if (copy) {
    beginning.copy = std::move(copy);
    beginning.other_folder =
        found.empty() ? options.text("resume", options.text("init")) : found.back().path;
  } else if (goes_on || options.has("resume")) {
    beginning.checkpoint =
        std::make_unique<Checkpoint>(options.text(goes_on ? "checkpoint" : "resume"));
    check_belongs(*beginning.checkpoint, plan);
  } else if (options.has("init")) {
    const std::string folder = folder_with_weights(options.text("init"));
    auto weights = std::make_unique<HuggingFaceWeights>(folder, plan.model);
    for (const std::string& note : weights->notes()) print_note(note);
    beginning.weights = std::move(weights);
    beginning.other_folder = folder;
  }
  return beginning;
}

void tell_differences(const CheckpointInfo& before, const CheckpointInfo& info) {
  if (before.semantics != info.semantics) {
    print_note(fmt::format(
        "the checkpoint is of a run by {}, whose weights were read and updated otherwise than by "
        "this {}: versions that it lacks are taken to be its newest ones",
        before.schedule, info.schedule));
  } else if (before.summation != info.summation) {
    print_note(
        "gradients are added in another order than in the run before: the same training, but not "
        "the same bits");
  }
  if (before.samples_a_batch != info.samples_a_batch) {
    print_note(fmt::format("a step takes {} samples, in the run before {}", info.samples_a_batch,
                           before.samples_a_batch));
  }
  if (before.seed != info.seed)
    print_note(fmt::format("the seed is {}, in the run before {}", info.seed, before.seed));
  const std::map<std::string, std::string> now(info.settings.begin(), info.settings.end());
  for (const auto& [setting, value] : before.settings) {
    const auto found = now.find(setting);
    if (found == now.end() || found->second == value) continue;
    print_note(fmt::format("{}: {}, in the run before {}", setting, found->second, value));
  }
}

std::int64_t checkpoint_interval(const Options& options) {
  return options.integer("checkpoint-every", 1, kMostSteps, 0);
}

std::unique_ptr<CheckpointWriter> checkpoint_writer(const Options& options, CheckpointInfo info,
                                                    std::int64_t last,
                                                    const std::vector<KeptTensor>& tensors,
                                                    std::vector<KeptFile> files) {
  if (!options.has("checkpoint")) {
    refuse_given(options, {"checkpoint-every", "keep", "on-checkpoint-error"},
                 "--{} goes with --checkpoint DIR");
    return nullptr;
  }
  return std::make_unique<CheckpointWriter>(
      CheckpointOptions{
          .folder = options.text("checkpoint"),
          .every = checkpoint_interval(options),
          .keep = options.integer("keep", 0, kMostSteps, 2),
          .stop_on_failure = options.choice("on-checkpoint-error", {"continue", "stop"}) == "stop",
          .on_notice = print_note,
          .files = std::move(files)},
      std::move(info), last, tensors);
}

}  // namespace tandem::tools
