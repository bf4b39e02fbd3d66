#include "traces/chrome/atomic_file.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>
#include <zlib.h>

#include "core/base/progress.h"

namespace tandem {
namespace {

constexpr unsigned kBufferBytes = 1 << 20;
constexpr std::size_t kLargestWrite = std::size_t{1} << 30;  // zlib counts in int

}  // namespace

void AtomicFile::Close::operator()(gzFile_s* file) const { gzclose(file); }

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path.string()), file_(path_) {
  if (path.extension() != ".gz") return;
  Descriptor own(::dup(file_.descriptor()));  // zlib closes what it is given
  if (!own.valid()) fail(errno);
  gz_.reset(gzdopen(own.value(), "wb1"));
  if (gz_ == nullptr) fail(ENOMEM);
  own.release();
  gzbuffer(gz_.get(), kBufferBytes);
}

void AtomicFile::write(std::string_view text) {
  if (gz_ == nullptr) return file_.write(text);
  while (!text.empty()) {
    const std::size_t size = std::min(text.size(), kLargestWrite);
    errno = 0;
    if (gzwrite(gz_.get(), text.data(), static_cast<unsigned>(size)) <= 0) fail(errno);
    keep_going();
    text.remove_prefix(size);
  }
}

void AtomicFile::finish() {
  // Closing writes what is buffered, so it is where a full disk may first show.
  errno = 0;
  if (gz_ != nullptr && gzclose(gz_.release()) != Z_OK) fail(errno);
  file_.commit();
}

void AtomicFile::fail(int error) const { fail_writing(path_, error == 0 ? EIO : error); }

}  // namespace tandem
