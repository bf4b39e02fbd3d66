#pragma once
// CopyFolders: where the ranks of a launch keep copies of their state, on each of its hosts: in its
// memory, until the launch has ended.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tools/cli/memory_folder.h"

namespace tandem::tools {

class CopyFolders {
 public:
  /// `hosts`: elsewhere, called by `ssh`. Throws as MemoryFolder() does.
  CopyFolders(const std::vector<std::string>& hosts, std::string ssh);
  /// Has them removed, for some seconds; says where that fails.
  ~CopyFolders();
  CopyFolders(const CopyFolders&) = delete;
  CopyFolders& operator=(const CopyFolders&) = delete;

  /// Of one elsewhere, or of any name of this one.
  const std::string& of(const std::string& host) const;

 private:
  const std::string ssh_;
  const MemoryFolder here_;
  std::map<std::string, std::string> elsewhere_;
};

}  // namespace tandem::tools
