#pragma once
// StageCopies: what lasts of one stage after each of its newest batches, in files of a memory file
// system, by whoever writes them: the rank that has the stage, or another host's, which is brought
// them.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/descriptor.h"

namespace tandem {

/// A copy that is whole.
struct StageCopy {
  std::size_t stage = 0;
  std::int64_t batches = 0;  // that had ended
  std::string path = {};
};

/// All that are there, as they may be by their names; none where the folder is not there.
std::vector<StageCopy> copies_in(const std::string& folder);

/// Every failure throws DeviceError.
class StageCopies {
 public:
  /// Keeps the newest `keep`, those among them that an earlier start has left. `begins`: batches
  /// that the run begins with; copies of later ones go.
  StageCopies(std::string folder, std::size_t stage, std::int64_t begins, std::int64_t keep);

  /// To the copy that is being written.
  void append(std::string_view bytes);
  /// Bytes of it so far.
  std::int64_t size() const { return size_; }
  /// It is whole.
  StageCopy finish(std::int64_t batches);

 private:
  struct Whole {
    std::string path;
    bool ours = false;  // else others may still read it: it is never written over
  };

  void open();

  const std::string folder_;
  const std::size_t stage_;
  const std::int64_t keep_;
  const std::string half_written_;
  std::deque<Whole> whole_;  // ascending
  Descriptor file_;
  std::int64_t size_ = 0;
};

}  // namespace tandem
