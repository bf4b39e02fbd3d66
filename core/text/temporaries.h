#pragma once
// Files that are gone when they are no longer of use, whatever ends the process but SIGKILL.

#include <cstddef>
#include <string>

namespace tandem {

/// A file that is removed at the end of its scope, unless it is forgotten.
class Temporary {
 public:
  explicit Temporary(std::string path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const std::string& path() const { return path_; }
  /// It has another name now.
  void forget();

 private:
  std::string path_;
  std::size_t slot_;
  bool kept_ = false;
};

/// Removes those that live. Safe in a signal's handler, before which the process ends.
void remove_temporaries() noexcept;

}  // namespace tandem
