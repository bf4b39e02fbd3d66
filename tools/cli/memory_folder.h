#pragma once
// MemoryFolder: a folder in this host's memory, for what shall outlive processes but not its owner.

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

}  // namespace tandem::tools
