#include "traces/chrome/compressed_file.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/error.h"

namespace tandem {
namespace {

constexpr unsigned char kMagic[] = {0x1f, 0x8b};
constexpr int kGzipWindow = 15 + 16;  // zlib's way to ask for gzip's format

Descriptor open(const std::filesystem::path& path) {
  const auto refuse = [&](const char* message) {
    throw InputError(Diagnostic{.message = message, .place = {.file = path.string()}});
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse("no such file");
  if (std::filesystem::is_directory(status)) refuse("is a directory");
  Descriptor file(open_file(path.string(), O_RDONLY));
  if (!file.valid()) refuse("cannot open");
  return file;
}

[[noreturn]] void fail(std::string reason) { throw UnreadableBytes{std::move(reason)}; }

}  // namespace

CompressedFile::CompressedFile(const std::filesystem::path& path) : file_(open(path)) {}

CompressedFile::~CompressedFile() {
  if (zlib_ != nullptr) inflateEnd(zlib_.get());
}

bool CompressedFile::fill() {
  if (left_ > 0) return true;
  ssize_t count = 0;
  do {
    count = ::read(file_.value(), raw_.data(), raw_.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail(reason_of(errno));
  next_ = raw_.data();
  left_ = static_cast<std::size_t>(count);
  position_ += left_;
  return left_ > 0;
}

std::size_t CompressedFile::read(char* into, std::size_t size) {
  if (!started_) {
    started_ = true;
    if (fill() && left_ >= 2 && std::equal(kMagic, kMagic + 2, next_)) begin_decompressing();
  }
  if (zlib_ != nullptr) return decompress(into, size);
  if (!fill()) return 0;
  const std::size_t count = std::min(size, left_);
  std::copy_n(next_, count, into);
  next_ += count;
  left_ -= count;
  return count;
}

void CompressedFile::begin_decompressing() {
  zlib_ = std::make_unique<z_stream>();
  if (inflateInit2(zlib_.get(), kGzipWindow) != Z_OK) throw std::bad_alloc();
}

std::size_t CompressedFile::decompress(char* into, std::size_t size) {
  std::size_t count = 0;
  while (count == 0 && !ended_) {
    if (!fill()) fail("the gzip data are cut off");
    zlib_->next_in = const_cast<unsigned char*>(next_);  // zlib's interface; nothing writes
    zlib_->avail_in = static_cast<unsigned>(left_);
    zlib_->next_out = reinterpret_cast<unsigned char*>(into);
    zlib_->avail_out = static_cast<unsigned>(size);
    const int result = inflate(zlib_.get(), Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) {
      fail(fmt::format("damaged gzip data before byte {}: {}", position_,
                       zlib_->msg == nullptr ? "no reason given" : zlib_->msg));
    }
    count = size - zlib_->avail_out;
    next_ = zlib_->next_in;
    left_ = zlib_->avail_in;
    if (result == Z_STREAM_END) ended_ = !next_member();
  }
  return count;
}

bool CompressedFile::next_member() {
  if (!fill()) return false;
  if (*next_ == kMagic[0]) {
    if (inflateReset(zlib_.get()) != Z_OK) fail("out of memory");
    return true;
  }
  const std::uint64_t end = position_ - left_;
  for (; fill(); left_ = 0) {
    if (std::all_of(next_, next_ + left_, [](unsigned char byte) { return byte == 0; })) continue;
    fail(fmt::format("the gzip data end at byte {}, and what follows is not gzip's", end));
  }
  return false;
}

}  // namespace tandem
