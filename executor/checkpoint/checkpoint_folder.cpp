#include "executor/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/text/output_place.h"
#include "executor/checkpoint/checkpoint_info.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kHalfWritten = ".step-";

/// The folders in `folder` whose names are `prefix` and a number.
std::vector<FoundCheckpoint> numbered(const std::string& folder, std::string_view prefix) {
  std::vector<FoundCheckpoint> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto number = number_in<std::int64_t>(std::string_view(name).substr(prefix.size()));
    if (number) found.push_back({entries->path().string(), *number});
  }
  std::ranges::sort(found, {}, &FoundCheckpoint::batches);
  return found;
}

bool is_checkpoint(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::path(path) / kManifestName, error);
}

}  // namespace

std::string checkpoint_name(std::int64_t batches) {
  return fmt::format("{}{:08}", kPrefix, batches);
}

std::vector<FoundCheckpoint> checkpoints_in(const std::string& folder) {
  std::vector<FoundCheckpoint> found = numbered(folder, kPrefix);
  std::erase_if(found, [](const FoundCheckpoint& each) { return !is_checkpoint(each.path); });
  return found;
}

bool holds_checkpoint(const std::string& path) {
  return is_checkpoint(path) || !checkpoints_in(path).empty();
}

std::string newest_checkpoint(const std::string& path) {
  if (is_checkpoint(path)) return path;
  const std::vector<FoundCheckpoint> found = checkpoints_in(path);
  if (!found.empty()) return found.back().path;
  std::error_code error;
  const bool is_there = fs::exists(path, error);
  throw InputError(
      fmt::format("{}: {}", path, is_there ? "there is no checkpoint here" : reason_of(ENOENT)));
}

CheckpointFolder::CheckpointFolder(std::string path, std::int64_t batches)
    : path_(std::move(path)) {
  make_folder(path_);
  lock_ = Descriptor(open_file(path_, O_RDONLY | O_DIRECTORY));
  if (!lock_.valid()) fail_writing(path_, errno);
  if (::flock(lock_.value(), LOCK_EX | LOCK_NB) != 0)
    throw DeviceError(fmt::format("{}: another run writes its checkpoints here", path_));
  if (::access(path_.c_str(), W_OK) != 0) fail_writing(path_, errno);
  if (is_checkpoint(path_)) {
    throw InputError(
        fmt::format("{}: this is a checkpoint itself: take the folder that it is in", path_));
  }
  const std::vector<FoundCheckpoint> found = checkpoints_in(path_);
  if (!found.empty() && found.back().batches > batches) {
    throw InputError(fmt::format(
        "{}: here is a checkpoint of step {}, and the run begins behind step {}: resume from that, "
        "or take another folder",
        path_, found.back().batches, batches));
  }
  std::error_code ignored;
  for (const FoundCheckpoint& half : numbered(path_, kHalfWritten))
    fs::remove_all(half.path, ignored);
}

std::string CheckpointFolder::half_written(std::int64_t batches) const {
  return (fs::path(path_) / ("." + checkpoint_name(batches))).string();
}

void CheckpointFolder::begin(std::int64_t batches) const {
  const std::string folder = half_written(batches);
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error) fs::create_directory(folder, error);
  if (error) fail_writing(folder, error.value());
}

void CheckpointFolder::publish(std::int64_t batches) const {
  const std::string from = half_written(batches);
  const std::string to = (fs::path(path_) / checkpoint_name(batches)).string();
  sync(from);
  std::error_code error;
  if (fs::exists(to, error)) fail_writing(to, EEXIST);  // it is not of this run
  if (::rename(from.c_str(), to.c_str()) != 0) fail_writing(to, errno);
  sync(path_);
}

void CheckpointFolder::discard(std::int64_t batches) const {
  std::error_code ignored;
  fs::remove_all(half_written(batches), ignored);
}

void CheckpointFolder::prune(std::int64_t keep) const {
  const std::vector<FoundCheckpoint> found = checkpoints_in(path_);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < found.size(); ++i) {
    // By a name that is cleared, so that half of it is not taken for a whole one, nor left.
    const std::string half = half_written(found[i].batches);
    if (::rename(found[i].path.c_str(), half.c_str()) != 0) continue;
    std::error_code ignored;
    fs::remove_all(half, ignored);
  }
}

void CheckpointFolder::sync(const std::string& folder) const {
  const Descriptor opened(open_file(folder, O_RDONLY | O_DIRECTORY));
  if (!opened.valid() || ::fsync(opened.value()) != 0) fail_writing(folder, errno);
}

DurableFile::DurableFile(std::string path, const std::vector<std::string_view>& pieces)
    : path_(std::move(path)), file_(open_file(path_, O_WRONLY | O_CREAT | O_TRUNC)) {
  if (!file_.valid()) fail_writing(path_, errno);
  for (const std::string_view piece : pieces) {
    if (const int error = write_all(file_.value(), piece); error != 0) fail_writing(path_, error);
  }
  // A hint: where it fails, finish() waits longer.
  static_cast<void>(::sync_file_range(file_.value(), 0, 0, SYNC_FILE_RANGE_WRITE));
}

void DurableFile::finish() {
  if (::fsync(file_.value()) != 0 || !file_.close()) fail_writing(path_, errno);
}

void write_durably(const std::string& path, const std::vector<std::string_view>& pieces) {
  DurableFile(path, pieces).finish();
}

}  // namespace tandem
