#include "tools/cli/safe_output.h"

#include <cerrno>
#include <new>
#include <string>

#include <unistd.h>

#include "core/base/utf8.h"

namespace tandem::tools {

namespace {

/// The bytes up to a character of which the rest may come later.
std::size_t whole(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 1; back < kLongest && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return size > back ? text.size() - back : text.size();
  }
  return text.size();
}

/// A stream of the C library in front of a descriptor.
class SafeStream {
 public:
  explicit SafeStream(int descriptor) : descriptor_(descriptor) {}

  void steer(bool on) { steers_ = on; }

  /// Takes all of `text`. False: it could not be written, errno says why.
  bool write(std::string_view text) {
    if (steers_) return pass_on(text);
    std::string all = begun_ + std::string(text);
    begun_ = all.substr(whole(all));
    all.resize(all.size() - begun_.size());
    return pass_on(printable(all));
  }

 private:
  bool pass_on(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

  int descriptor_;
  bool steers_ = false;
  std::string begun_;  // of a character
};

/// Never destroyed: what is printed while the process ends is printed, too.
SafeStream& safe_stream(int descriptor) {
  static SafeStream& out = *new SafeStream(STDOUT_FILENO);
  static SafeStream& err = *new SafeStream(STDERR_FILENO);
  return descriptor == STDOUT_FILENO ? out : err;
}

/// The C library calls it, and is not to be thrown through.
ssize_t write_safely(void* stream, const char* text, std::size_t size) {
  try {
    return static_cast<SafeStream*>(stream)->write({text, size}) ? static_cast<ssize_t>(size) : 0;
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return 0;
  }
}

/// Null: there is no memory for it.
std::FILE* opened(int descriptor, int buffering) {
  cookie_io_functions_t functions{};
  functions.write = write_safely;
  std::FILE* stream = ::fopencookie(&safe_stream(descriptor), "w", functions);
  if (stream != nullptr) std::setvbuf(stream, nullptr, buffering, BUFSIZ);
  return stream;
}

}  // namespace

void make_output_safe() {
  std::FILE* out = opened(STDOUT_FILENO, ::isatty(STDOUT_FILENO) != 0 ? _IOLBF : _IOFBF);
  std::FILE* err = opened(STDERR_FILENO, _IONBF);
  if (out != nullptr) stdout = out;
  if (err != nullptr) stderr = err;
}

void print_as_it_is(std::FILE* stream, std::string_view text) {
  SafeStream& safe = safe_stream(stream == stdout ? STDOUT_FILENO : STDERR_FILENO);
  std::fflush(stream);
  safe.steer(true);
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
  safe.steer(false);
}

}  // namespace tandem::tools
