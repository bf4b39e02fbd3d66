#pragma once
// A file that is open, and how it is written to.

#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace tandem {

/// open(2), again where a signal cut it short; closed by exec. Returns the descriptor, or -1 with
/// errno.
int open_file(const std::string& path, int flags, unsigned mode = 0666);

/// The error number of the first write that failed, or 0.
int write_all(int descriptor, std::string_view content);

/// The system's words for an error number.
std::string reason_of(int error);

/// Throws the DeviceError of a file that can't be written.
[[noreturn]] void fail_writing(const std::string& path, int error);

/// A file descriptor, closed at the end of its scope; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  bool valid() const { return value_ >= 0; }
  int value() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  /// Closes it now; false: what was written may not have arrived.
  bool close() { return ::close(release()) == 0; }

 private:
  int value_;
};

}  // namespace tandem
