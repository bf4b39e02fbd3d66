#pragma once
// The folder of a run's checkpoints: step-00000100 and so on, each whole or not there. One that is
// being written has a name with a dot before it, and is nobody's.

#include <cstdint>
#include <string>
#include <vector>

#include "core/text/descriptor.h"

namespace tandem {

/// "step-00000100".
std::string checkpoint_name(std::int64_t batches);

struct FoundCheckpoint {
  std::string path;
  std::int64_t batches = 0;
};
/// Those whose manifest is there, ascending; none where the folder is not there.
std::vector<FoundCheckpoint> checkpoints_in(const std::string& folder);

/// Whether it is a checkpoint, or a folder that has some.
bool holds_checkpoint(const std::string& path);

/// `path` itself where it is a checkpoint, else the newest in it. Throws InputError where there is
/// none.
std::string newest_checkpoint(const std::string& path);

/// To write to: made where it is not there, and of one run alone while this lives.
class CheckpointFolder {
 public:
  /// Clears what runs that were killed left half-written. Throws DeviceError where the folder can't
  /// be made or written to, or another run has it, and InputError where it has checkpoints of more
  /// than `batches`: of another run, or of this one's future.
  CheckpointFolder(std::string path, std::int64_t batches);

  const std::string& path() const { return path_; }
  /// Where files are written until publish().
  std::string half_written(std::int64_t batches) const;
  /// An empty folder there. Throws DeviceError.
  void begin(std::int64_t batches) const;
  /// What is there takes its name, for good: names of files reach the disk before it does.
  void publish(std::int64_t batches) const;
  void discard(std::int64_t batches) const;
  /// Removes all but the newest `keep`.
  void prune(std::int64_t keep) const;

 private:
  void sync(const std::string& folder) const;

  std::string path_;
  Descriptor lock_;
};

/// A file on its way to the disk. Every failure throws DeviceError.
class DurableFile {
 public:
  /// Writes it, and has the disk begin: what is done meanwhile costs no time.
  DurableFile(std::string path, const std::vector<std::string_view>& pieces);
  /// Returns when it is on the disk.
  void finish();

 private:
  std::string path_;
  Descriptor file_;
};

/// A file that is on the disk when this returns. Throws DeviceError.
void write_durably(const std::string& path, const std::vector<std::string_view>& pieces);

}  // namespace tandem
