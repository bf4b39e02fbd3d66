#include "executor/checkpoint/average.h"

#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/text/descriptor.h"
#include "core/text/files.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/checkpoint/checkpoint_image.h"
#include "executor/checkpoint/library_model.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::vector<float> mean_of(std::span<const std::unique_ptr<Checkpoint>> checkpoints,
                           const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  std::vector<double> sums(values.size());
  for (const auto& checkpoint : checkpoints) {
    TANDEM_CHECK(checkpoint->read(kNewestWeights, tensor, values), tensor.name);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    values[i] = static_cast<float>(sums[i] / static_cast<double>(checkpoints.size()));
  return values;
}

void check_one_model(std::span<const std::unique_ptr<Checkpoint>> checkpoints) {
  for (const auto& checkpoint : checkpoints) {
    ModelSpec model = checkpoint->info().model;
    model.name = checkpoints.front()->info().model.name;
    if (model == checkpoints.front()->info().model) continue;
    throw InputError(fmt::format("{} and {} are of different models", checkpoints.front()->path(),
                                 checkpoint->path()));
  }
}

}  // namespace

void write_average(std::span<const std::unique_ptr<Checkpoint>> checkpoints,
                   const std::string& folder) {
  check_one_model(checkpoints);
  // Without the slash that a shell's completion puts behind it.
  fs::path place = fs::path(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  std::error_code error;
  if (fs::exists(place, error)) throw DeviceError(fmt::format("{}: it is there already", folder));
  const ModelSpec& model = checkpoints.front()->info().model;
  std::vector<KeptTensor> kept;
  for (const LayerTensor& each : tensors_of(model)) kept.push_back({each.tensor, {kNewestWeights}});
  CheckpointImage image(model, kept);
  for (const KeptTensor& each : kept)
    image.put(kNewestWeights, each.tensor, mean_of(checkpoints, each.tensor));

  fs::path half_written = place;
  half_written += fmt::format(".{}.partial", ::getpid());
  fs::create_directories(half_written, error);
  if (error) fail_writing(half_written, error.value());
  try {
    const ImageFile& file = image.files().front();
    const std::string head = safetensors_head(file.tensors);
    write_durably(half_written / file.name, {head, file.all_bytes()});
    if (const std::string config = library_config(model); !config.empty())
      write_durably(half_written / kConfigName, {config});
    const Checkpoint& first = *checkpoints.front();
    for (const char* name : {kTokenizerName, kTokenizerConfigName}) {
      const auto known = first.manifest().bytes.find(name);
      if (known == first.manifest().bytes.end()) continue;
      const auto bytes = static_cast<std::size_t>(known->second);
      write_durably(half_written / name,
                    {read_file((fs::path(first.path()) / name).string(), bytes)});
    }
    fs::rename(half_written, place);
  } catch (const std::exception& failure) {
    fs::remove_all(half_written, error);
    throw DeviceError(fmt::format("{}: {}", folder, failure.what()));
  }
}

}  // namespace tandem
