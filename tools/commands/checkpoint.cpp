// tandem checkpoint show|verify DIR, average DIR...: what a checkpoint holds, whether every byte of
// it is right, and the mean of several.

#include "executor/checkpoint/checkpoint.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text/count_text.h"
#include "executor/checkpoint/average.h"
#include "tools/cli/json_output.h"
#include "tools/cli/options.h"
#include "tools/commands/command.h"

namespace tandem::tools {

namespace {

/// Of each plane, tensors and bytes.
struct PlaneSize {
  std::int64_t tensors = 0, bytes = 0;
};

std::map<Plane, PlaneSize> planes_in(const Checkpoint& checkpoint) {
  std::map<Plane, PlaneSize> planes;
  for (const LayerTensor& each : tensors_of(checkpoint.info().model)) {
    for (const Plane plane : checkpoint.planes_of(each.tensor)) {
      ++planes[plane].tensors;
      planes[plane].bytes += each.tensor.size() * static_cast<std::int64_t>(sizeof(float));
    }
  }
  return planes;
}

std::int64_t bytes_of(const Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const auto& [file, size] : checkpoint.manifest().bytes) bytes += size;
  return bytes;
}

Json as_json(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  Json planes = Json::object();
  for (const auto& [plane, size] : planes_in(checkpoint))
    planes[name(plane)] = {{"tensors", size.tensors}, {"bytes", size.bytes}};
  Json settings = Json::object();
  for (const auto& [setting, value] : info.settings) settings[setting] = value;
  return {{"path", checkpoint.path()},
          {"steps", info.batches},
          {"samples", info.samples},
          {"seed", info.seed},
          {"schedule", info.schedule},
          {"optimizer", describe(info.optimizer)},
          {"model", info.model.name},
          {"parameters", parameter_count(info.model)},
          {"settings", std::move(settings)},
          {"planes", std::move(planes)},
          {"tokenizer",
           checkpoint.manifest().bytes.contains(kTokenizerName) ? Json(kTokenizerName) : Json()},
          {"bytes", bytes_of(checkpoint)},
          {"written_by", info.written_by}};
}

void print_checkpoint(const Checkpoint& checkpoint) {
  const CheckpointInfo& info = checkpoint.info();
  fmt::print("{}: step {}, {} samples, seed {}\n", checkpoint.path(), info.batches, info.samples,
             info.seed);
  fmt::print("model {}: {}, {} blocks, width {}, {} parameters\n", info.model.name,
             name(info.model.architecture), info.model.blocks, info.model.width,
             print_count(parameter_count(info.model)));
  fmt::print("trained by {} with {}, {} samples a step\n", schedule_heading(info.schedule),
             describe(info.optimizer), info.samples_a_batch);
  for (const auto& [setting, value] : info.settings) fmt::print("{}: {}\n", setting, value);
  fmt::print("tokenizer: {}\n", checkpoint.manifest().bytes.contains(kTokenizerName)
                                    ? kTokenizerName
                                    : "none: a byte is a token, or --tokenizer says what is");
  fmt::print("\n{:<20} {:>8} {:>10}\n", "of each tensor", "tensors", "bytes");
  for (const auto& [plane, size] : planes_in(checkpoint))
    fmt::print("{:<20} {:>8} {:>10}\n", name(plane), size.tensors, print_bytes(size.bytes));
}

int average(const Options& options, const std::vector<std::string>& paths) {
  if (!options.has("output")) refuse(options, "--output is missing: the folder of the average");
  std::vector<std::unique_ptr<Checkpoint>> checkpoints;
  for (const std::string& path : paths) checkpoints.push_back(std::make_unique<Checkpoint>(path));
  write_average(checkpoints, options.text("output"));
  if (options.has("json")) {
    print_result("checkpoint", {{"average", paths}}, Json::object(),
                 {{"output", options.text("output")}});
  } else {
    fmt::print("{}: the mean of the weights of {}\n", options.text("output"),
               counted(std::ssize(paths), "checkpoint"));
  }
  return 0;
}

}  // namespace

Options options_of_checkpoint() {
  Options options("checkpoint", "show DIR | verify DIR | average DIR... --output DIR",
                  "Says what a checkpoint holds, checks every byte of it, or averages the weights "
                  "of several. Of a folder of checkpoints the newest is meant.");
  options.words("show, verify or average, and DIR", 2, std::numeric_limits<int>::max())
      .first_word({"show", "verify", "average"});
  options.value("output", "DIR",
                "of average: a folder that Hugging Face's library and --init open");
  return options;
}

int run_checkpoint(const Options& options) {
  const std::string& verb = options.words()[0];
  const std::vector<std::string> paths(options.words().begin() + 1, options.words().end());
  if (verb == "average") return average(options, paths);
  if ((verb != "show" && verb != "verify") || paths.size() != 1) {
    refuse(options, "expected show DIR, verify DIR or average DIR..., found \"{}\"{}",
           fmt::join(options.words(), " "), did_you_mean(verb, {"show", "verify", "average"}));
  }
  refuse_given(options, {"output"}, "--{} goes with average");
  const Checkpoint checkpoint(paths[0]);
  if (options.has("json")) {
    print_result("checkpoint", {{verb, paths[0]}}, Json::object(), as_json(checkpoint));
  } else if (verb == "show") {
    print_checkpoint(checkpoint);
  } else {
    fmt::print("{}: step {}, every one of {} is as it was written\n", checkpoint.path(),
               checkpoint.info().batches, counted(bytes_of(checkpoint), "byte"));
  }
  return 0;
}

}  // namespace tandem::tools
