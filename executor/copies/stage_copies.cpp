#include "executor/copies/stage_copies.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "core/base/ascii.h"
#include "executor/checkpoint/checkpoint_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOfStage = "stage-";

/// Of "stage-3.step-00000012".
std::optional<StageCopy> parse_name(std::string_view name) {
  const std::size_t dot = name.find('.'), digits = name.rfind('-');
  if (!name.starts_with(kOfStage) || dot == std::string_view::npos || digits < dot)
    return std::nullopt;
  const auto stage = number_in<std::size_t>(name.substr(kOfStage.size(), dot - kOfStage.size()));
  const auto batches = number_in<std::int64_t>(name.substr(digits + 1));
  if (!stage || !batches) return std::nullopt;
  return StageCopy{.stage = *stage, .batches = *batches};
}

}  // namespace

std::vector<StageCopy> copies_in(const std::string& folder) {
  std::vector<StageCopy> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    auto copy = parse_name(entries->path().filename().string());
    if (!copy) continue;
    copy->path = entries->path().string();
    found.push_back(std::move(*copy));
  }
  std::ranges::sort(found, {},
                    [](const StageCopy& copy) { return std::pair(copy.batches, copy.stage); });
  return found;
}

StageCopies::StageCopies(std::string folder, std::size_t stage, std::int64_t begins,
                         std::int64_t keep)
    : folder_(std::move(folder)),
      stage_(stage),
      keep_(keep),
      half_written_(
          (fs::path(folder_) / fmt::format(".{}{}.half-written", kOfStage, stage)).string()) {
  std::error_code ignored;
  fs::remove(half_written_, ignored);
  for (const StageCopy& copy : copies_in(folder_)) {
    if (copy.stage != stage_) continue;
    if (copy.batches > begins)
      fs::remove(copy.path, ignored);
    else
      whole_.push_back({copy.path, false});
  }
}

void StageCopies::open() {
  // Memory that is there is written over: none must be found, nor cleared.
  while (std::ssize(whole_) >= keep_) {
    const Whole oldest = whole_.front();
    whole_.pop_front();
    std::error_code error;
    oldest.ours ? fs::rename(oldest.path, half_written_, error)
                : (void)fs::remove(oldest.path, error);
  }
  file_ = Descriptor(open_file(half_written_, O_RDWR | O_CREAT, 0600));
  if (!file_.valid()) fail_writing(half_written_, errno);
  size_ = 0;
}

void StageCopies::append(std::string_view bytes) {
  if (!file_.valid()) open();
  if (const int error = write_all(file_.value(), bytes); error != 0)
    fail_writing(half_written_, error);
  size_ += std::ssize(bytes);
}

StageCopy StageCopies::finish(std::int64_t batches) {
  StageCopy copy{
      stage_, batches,
      (fs::path(folder_) / fmt::format("{}{}.{}", kOfStage, stage_, checkpoint_name(batches)))
          .string()};
  if (::ftruncate(file_.value(), size_) != 0 ||
      std::rename(half_written_.c_str(), copy.path.c_str()) != 0)
    fail_writing(copy.path, errno);
  file_ = Descriptor();
  size_ = 0;
  whole_.push_back({copy.path, true});
  return copy;
}

}  // namespace tandem
