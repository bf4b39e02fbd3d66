#pragma once
// AtomicFile: a file that appears whole or not at all.

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem {

/// Writes NAME.tmp and renames it to NAME in finish(); one that is not finished leaves nothing
/// behind. A name that ends in .gz is compressed on the way (zlib level 1). Links, pipes and
/// /dev/stdout are as for write_file (core/io/output_place.h). Every failure throws DeviceError
/// with the path and the reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view text);
  /// REQUIRES: called once, nothing is written after.
  void finish();

 private:
  [[noreturn]] void fail(std::string_view what, int error) const;
  void write_all(std::string_view text);
  void close();

  std::filesystem::path path_;
  std::string target_, written_;  // behind links, and its .tmp; empty: none
  int descriptor_ = -1;
  void* gz_ = nullptr;  // zlib's, which owns the descriptor then
};

}  // namespace tandem
