#pragma once
// Replacement: a file that appears whole or not at all. All of tandem's files but those that grow
// line by line (core/text/output_place.h) are written by it.

#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "core/text/output_place.h"
#include "core/text/temporaries.h"

namespace tandem {

/// Writes a file of a name of its own beside the target; commit() brings it to the disk and lets
/// it take the target's name. Without commit(), or when a signal ends the process, the target stays
/// as it was and nothing is left beside it. Who may read and write a target that is there stays as
/// it is; behind a link, what it leads to is replaced. What isn't a regular file (/dev/stdout, a
/// pipe) is written to as it stands. Every failure throws DeviceError with the path and the reason.
class Replacement {
 public:
  explicit Replacement(std::string path);

  int descriptor() const { return file_.value(); }
  void write(std::string_view text);
  /// REQUIRES: called once, nothing is written after.
  void commit();

 private:
  void open_beside();
  void keep_owner_and_mode(const struct stat& target) const;
  void sync_folder() const;

  std::string path_;
  OutputPlace place_;
  std::optional<Temporary> temporary_;  // none: the target is written to as it stands
  Descriptor file_;
};

}  // namespace tandem
