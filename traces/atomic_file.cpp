#include "traces/atomic_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "core/error.h"
#include "core/io/output_place.h"

namespace tandem {
namespace {

constexpr unsigned kBufferBytes = 1 << 20;
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // zlib counts in int

gzFile gz_of(void* handle) { return static_cast<gzFile>(handle); }

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  const OutputPlace place = output_place(path_.string());
  target_ = place.path;
  if (place.as_it_stands) {
    descriptor_ = open_as_it_stands(place);
  } else {
    written_ = target_ + ".tmp";
    descriptor_ = ::open(written_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  }
  if (descriptor_ < 0) fail("open", errno);
  if (path_.extension() != ".gz") return;
  gz_ = gzdopen(descriptor_, "wb1");
  if (gz_ == nullptr) {
    ::close(descriptor_);
    if (!written_.empty()) ::unlink(written_.c_str());
    fail("compress", ENOMEM);
  }
  gzbuffer(gz_of(gz_), kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  if (gz_ != nullptr) {
    gzclose(gz_of(gz_));
  } else {
    ::close(descriptor_);
  }
  if (!written_.empty()) ::unlink(written_.c_str());
}

void AtomicFile::write(std::string_view text) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, kLargestWrite);
    write_all(piece);
    text.remove_prefix(piece.size());
  }
}

void AtomicFile::write_all(std::string_view text) {
  if (gz_ != nullptr) {
    errno = 0;
    if (gzwrite(gz_of(gz_), text.data(), static_cast<unsigned>(text.size())) <= 0) {
      fail("write", errno);
    }
    return;
  }
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::finish() {
  close();
  if (written_.empty()) return;
  if (::rename(written_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    ::unlink(written_.c_str());
    fail("rename", error);
  }
}

/// Closing writes what is buffered, so it is where a full disk may first show.
void AtomicFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  errno = 0;
  const bool closed = gz_ != nullptr ? gzclose(gz_of(gz_)) == Z_OK : ::close(descriptor) == 0;
  const int error = errno;
  if (closed) return;
  if (!written_.empty()) ::unlink(written_.c_str());
  fail("write", error);
}

void AtomicFile::fail(std::string_view what, int error) const {
  throw DeviceError(fmt::format("{}: cannot {}: {}", path_.string(), what,
                                error == 0 ? "input/output error" : std::strerror(error)));
}

}  // namespace tandem
