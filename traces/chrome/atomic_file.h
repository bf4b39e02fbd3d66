#pragma once
// AtomicFile: a file that appears whole or not at all, compressed or not.

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/text/replacement.h"

struct gzFile_s;  // zlib's

namespace tandem {

/// A Replacement. A name that ends in .gz is compressed on the way (zlib level 1).
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);

  void write(std::string_view text);
  /// REQUIRES: called once, nothing is written after.
  void finish();

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };

  [[noreturn]] void fail(int error) const;

  std::string path_;
  Replacement file_;
  std::unique_ptr<gzFile_s, Close> gz_;  // null: not compressed
};

}  // namespace tandem
