#pragma once
// Where written bytes go: files that another may replace, and what only takes them as it stands.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/text/descriptor.h"

namespace tandem {

/// Where what is written to a path goes.
struct OutputPlace {
  std::string path;  // behind links, as replacing a link would cut it off from its file
  /// A device, a pipe, or what a process has open (/dev/stdout, /proc/self/fd/N): it is written to
  /// as it stands. Renamed onto it, a file would take its place or miss who reads it.
  bool as_it_stands = false;
  int descriptor = -1;  // of this process, that the path stands for
};
OutputPlace output_place(const std::string& path);

/// Opens what is written to as it stands. What a process has open goes on where it is, or at its
/// end. Returns the descriptor, or -1 with errno.
int open_as_it_stands(const OutputPlace& place);

/// Throws DeviceError with the reason when a file at `path` can't be written; changes nothing. A
/// disk may still be full, or fill up. For outputs of long work: nobody trains for an hour to learn
/// that a folder does not exist.
void check_can_write(const std::string& path);

/// A folder there, and those above it, made where they are not. Throws DeviceError.
void make_folder(const std::string& path);

/// Whether two paths are one file, by whatever names and links: what is written to one is read from
/// the other. Of devices and pipes no two are.
bool same_file(const std::string& one, const std::string& other);

/// A file that grows piece by piece, each of which reaches it whole as soon as it is written. It is
/// of one process: another that opens it as such is refused. Every failure throws DeviceError with
/// path and reason.
class GrowingFile {
 public:
  /// Makes the file where there is none; changes nothing of one that is there.
  explicit GrowingFile(std::string path);

  /// The next write() cuts off what is behind the first `bytes`, of a file that isn't written to as
  /// it stands: what ends before it has written anything leaves the file as it was.
  void keep(std::int64_t bytes) { kept_ = bytes; }
  void write(std::string_view text);

 private:
  std::string path_;
  bool as_it_stands_ = false;
  Descriptor file_;
  std::optional<std::int64_t> kept_;  // empty: all
};

}  // namespace tandem
