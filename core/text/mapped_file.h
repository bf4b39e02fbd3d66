#pragma once
// MappedFile: a file's bytes without reading them into memory.

#include <memory>
#include <string>
#include <string_view>

namespace tandem {

/// Immutable; copies share the mapping. The file must not be cut short meanwhile.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws InputError naming the path where it can't be mapped: no regular file, no right to read
  /// it. An empty file has no bytes.
  explicit MappedFile(const std::string& path);

  std::string_view bytes() const { return bytes_; }
  /// What keeps bytes() alive.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view bytes_;
};

}  // namespace tandem
