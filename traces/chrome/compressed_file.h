#pragma once
// The bytes of a file, uncompressed where it is compressed, which its content tells. Internal to
// traces/.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/text/descriptor.h"

struct z_stream_s;  // zlib's

namespace tandem {

/// Why the bytes of a file end before its content does.
struct UnreadableBytes {
  std::string reason;
};

/// gzip's format, of one member or of several, one behind the other, and zeros behind the last, as
/// tapes have them; or bytes as they are.
class CompressedFile {
 public:
  /// Throws InputError when the file can't be opened.
  explicit CompressedFile(const std::filesystem::path& path);
  ~CompressedFile();
  CompressedFile(const CompressedFile&) = delete;
  CompressedFile& operator=(const CompressedFile&) = delete;

  /// The next bytes, `size` at most; none: the end. Throws UnreadableBytes: damaged, cut off, or
  /// followed by what is not gzip's.
  std::size_t read(char* into, std::size_t size);

 private:
  /// Reads on where nothing is left of what was read; false: there is no more.
  bool fill();
  void begin_decompressing();
  std::size_t decompress(char* into, std::size_t size);
  /// Whether another member follows the one that ended.
  bool next_member();

  Descriptor file_;
  std::array<unsigned char, 1 << 16> raw_{};
  const unsigned char* next_ = raw_.data();  // of what was read and not yet used
  std::size_t left_ = 0;
  std::uint64_t position_ = 0;  // in the file, behind what was read
  bool started_ = false;
  bool ended_ = false;
  std::unique_ptr<z_stream_s> zlib_;  // null: the bytes are as they are
};

}  // namespace tandem
