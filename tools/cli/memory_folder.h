#pragma once
// MemoryFolder: a folder in this host's memory, for what shall outlive processes but not its owner,
// and those of other hosts that an owner here names.

#include <string>

#include "core/text/descriptor.h"

namespace tandem::tools {

class MemoryFolder {
 public:
  /// A new one, that no other user may look into. Removes those whose owners were killed. Throws
  /// AbsentError where this host has no memory file system.
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor lock_;  // who lives has it
};

/// Of that path, which a MemoryFolder here or on another host has named: made unless it is there.
/// It stays, and while anyone holds what is returned it is not taken for one whose owner was
/// killed. Throws AbsentError where it can't be made, or is another user's.
Descriptor join_memory_folder(const std::string& path);

}  // namespace tandem::tools
