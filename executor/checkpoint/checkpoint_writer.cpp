#include "executor/checkpoint/checkpoint_writer.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "executor/checkpoint/library_model.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::vector<std::int64_t> steps_of_layers(const ModelSpec& model,
                                          const std::map<std::string, std::int64_t>& steps) {
  std::vector<std::int64_t> of_layers(layers_of(model).size());
  for (const LayerTensor& each : tensors_of(model))
    of_layers[static_cast<std::size_t>(each.layer)] = steps.at(each.tensor.name);
  return of_layers;
}

/// Checksums of what is written; the head is part "".
FileSums sums_of(const ImageFile& file, std::string_view head) {
  FileSums sums{{"", checksum(head)}};
  for (const StoredTensor& tensor : file.tensors)
    sums[tensor.name] = checksum(file.bytes_of(tensor));
  return sums;
}

DurableFile begin_file(const std::string& path, const ImageFile& file) {
  const std::string head = safetensors_head(file.tensors);
  return DurableFile(path, {head, file.all_bytes()});
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointOptions options, CheckpointInfo info,
                                   std::int64_t last, const std::vector<KeptTensor>& tensors)
    : options_(std::move(options)),
      start_(std::move(info)),
      last_(last),
      image_(start_.model, tensors),
      tensors_(tensors.size()),
      folder_(options_.folder, start_.batches),
      thread_([this] { work(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool CheckpointWriter::wants(std::int64_t batches) {
  std::unique_lock lock(mutex_);
  check_failure();
  // The first who asks for the last one waits for that before; who asks then, for the same answer.
  changed_.wait(lock, [&] { return !decides_ || batches != decided_; });
  if (batches <= decided_) return batches == batches_;
  const bool is_last = batches == last_;
  if (!is_last && (options_.every == 0 || batches % options_.every != 0)) return false;
  decided_ = batches;
  if (is_last) {
    decides_ = true;
    changed_.wait(lock, [this] { return state_ == State::idle; });
    decides_ = false;
    changed_.notify_all();
  }
  check_failure();  // of the one that was waited for
  if (state_ != State::idle) {
    tell(
        options_.on_notice,
        fmt::format("the checkpoint of step {} is left out: that of step {} is still being written",
                    batches, batches_));
    return false;
  }
  state_ = State::filling;
  batches_ = batches;
  steps_.clear();
  return true;
}

void CheckpointWriter::check_failure() const {
  if (failure_ && (options_.stop_on_failure || batches_ == last_)) throw DeviceError(*failure_);
}

void CheckpointWriter::keep(const ShownPlane<float>& shown) {
  image_.put(shown.plane, shown.tensor, shown.values);
}

void CheckpointWriter::end_stage(std::int64_t /*batches*/, std::span<const Tensor> tensors,
                                 std::int64_t steps) {
  const std::lock_guard lock(mutex_);
  for (const Tensor& tensor : tensors) steps_[tensor.name] = steps;
  if (steps_.size() < tensors_) return;
  state_ = State::writing;
  changed_.notify_all();
}

std::string CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::writing; });
  check_failure();
  return written_ < 0 ? std::string()
                      : (fs::path(folder_.path()) / checkpoint_name(written_)).string();
}

CheckpointInfo CheckpointWriter::info_now() const {
  CheckpointInfo info = start_;
  info.batches = batches_;
  info.samples += (batches_ - start_.batches) * info.samples_a_batch;
  info.steps = steps_of_layers(info.model, steps_);
  return info;
}

void CheckpointWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || state_ == State::writing; });
    if (state_ != State::writing) return;
    const CheckpointInfo info = info_now();
    lock.unlock();
    std::optional<std::string> failure;
    try {
      write(info);
    } catch (const std::exception& error) {  // memory may be short, too
      folder_.discard(info.batches);
      failure = fmt::format("the checkpoint of step {} could not be written: {}", info.batches,
                            error.what());
      const bool is_thrown = options_.stop_on_failure || info.batches == last_;
      if (!is_thrown) tell(options_.on_notice, *failure);
    }
    lock.lock();
    if (!failure) written_ = info.batches;
    failure_ = std::move(failure);
    state_ = State::idle;
    changed_.notify_all();
  }
}

void CheckpointWriter::write(const CheckpointInfo& info) {
  folder_.begin(info.batches);
  const fs::path folder = folder_.half_written(info.batches);
  CheckpointManifest manifest{.info = info, .bytes = {}, .sums = {}};
  std::vector<DurableFile> written;
  for (const ImageFile& file : image_.files())
    written.push_back(begin_file(folder / file.name, file));
  for (const ImageFile& file : image_.files()) {  // while the disk is at work
    const std::string head = safetensors_head(file.tensors);
    manifest.bytes[file.name] = static_cast<std::int64_t>(head.size() + file.bytes());
    manifest.sums[file.name] = sums_of(file, head);
  }
  for (DurableFile& file : written) file.finish();
  std::vector<KeptFile> files = options_.files;
  if (std::string config = library_config(info.model); !config.empty())
    files.push_back({kConfigName, std::move(config)});
  for (const KeptFile& file : files) {
    manifest.bytes[file.name] = static_cast<std::int64_t>(file.content.size());
    manifest.sums[file.name] = {{"", checksum(file.content)}};
    write_durably(folder / file.name, {file.content});
  }
  // Last: what has a manifest is whole.
  write_durably(folder / kManifestName, {manifest_text(manifest)});
  folder_.publish(info.batches);
  if (options_.keep > 0) folder_.prune(options_.keep);
}

}  // namespace tandem
