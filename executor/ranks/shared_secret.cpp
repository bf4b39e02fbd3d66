#include "executor/ranks/shared_secret.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"

namespace tandem {

namespace {

constexpr std::size_t kLeastSecret = 16, kMostOfFile = 4096;

struct SecretFile {
  explicit SecretFile(const std::string& path)
      : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~SecretFile() {
    if (number >= 0) ::close(number);
  }
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;

  int number;
};

/// Looks at the open file, so that it is the one that is read.
std::string read_secret(const std::string& path) {
  const SecretFile file(path);
  struct stat found{};
  if (file.number < 0 || ::fstat(file.number, &found) != 0)
    throw InputError(
        fmt::format("{}: cannot open: {}", path, std::generic_category().message(errno)));
  if (!S_ISREG(found.st_mode)) throw InputError(path + ": is no file");
  if (const unsigned mode = found.st_mode & 0777U; (mode & 0077U) != 0)
    throw InputError(
        fmt::format("{}: holds a secret that others may read (mode {:o}): chmod 600 makes it yours",
                    path, mode));
  std::array<char, kMostOfFile + 1> text{};
  const ssize_t size = ::read(file.number, text.data(), text.size());
  if (size < 0)
    throw InputError(
        fmt::format("{}: cannot read: {}", path, std::generic_category().message(errno)));
  if (static_cast<std::size_t>(size) > kMostOfFile)
    throw InputError(fmt::format("{}: holds more than {} bytes", path, kMostOfFile));
  return {text.data(), static_cast<std::size_t>(size)};
}

}  // namespace

std::optional<std::string> shared_secret(const LookUp& look,
                                         const std::optional<std::string>& path) {
  const char* const variable = "TANDEM_SECRET";
  std::string secret = path ? read_secret(*path) : look(variable).value_or("");
  if (!path && secret.empty()) return std::nullopt;
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  const std::string name = path.value_or(variable);
  // Not the secret itself, which a log would keep.
  if (secret.size() < kLeastSecret)
    throw InputError(fmt::format("{}: expected a secret of at least {} characters, found {}", name,
                                 kLeastSecret, secret.size()));
  if (secret.find_first_of(std::string("\n\r\0", 3)) != std::string::npos)
    throw InputError(name + ": expected a secret in one line, found several");
  return secret;
}

std::string random_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  std::string secret;
  for (const unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

}  // namespace tandem
