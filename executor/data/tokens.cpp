#include "executor/data/tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/text/descriptor.h"
#include "core/text/files.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

using Header = std::array<std::int32_t, 256>;
constexpr std::int32_t kMagic = 20240520;
constexpr std::int32_t kVersion = 1;

[[noreturn]] void reject(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

struct Mapping {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
};

Mapping map_file(const std::string& path) {
  const Descriptor file(open_file(path, O_RDONLY));
  struct stat status{};
  if (!file.valid() || ::fstat(file.value(), &status) != 0) reject(path, reason_of(errno));
  if (S_ISDIR(status.st_mode)) reject(path, reason_of(EISDIR));
  if (!S_ISREG(status.st_mode)) reject(path, "not a regular file: it can't be mapped");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) reject(path, "the file is empty");
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value(), 0);
  if (memory == MAP_FAILED) reject(path, reason_of(errno));
  return {.owner = std::shared_ptr<const void>(
              memory, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); }),
          .bytes = {static_cast<const char*>(memory), size}};
}

/// The numbers behind a sound header.
std::span<const std::uint16_t> check_tokens(const std::string& path, std::string_view bytes) {
  Header header{};
  if (bytes.size() < sizeof header) {
    reject(path, fmt::format("{} bytes can't be a token file: its header alone has {}",
                             bytes.size(), sizeof header));
  }
  std::memcpy(header.data(), bytes.data(), sizeof header);
  const auto [magic, version, count] = std::array{header[0], header[1], header[2]};
  if (magic != kMagic) {
    reject(path, fmt::format("expected a token file, which begins with the number {}, found {}",
                             kMagic, magic));
  }
  if (version != kVersion)
    reject(path, fmt::format("expected version {} of token files, found {}", kVersion, version));
  if (count <= 0) reject(path, fmt::format("expected at least one token, found {}", count));
  const std::size_t held = bytes.size() - sizeof header;
  const std::size_t wanted = static_cast<std::size_t>(count) * sizeof(std::uint16_t);
  if (held != wanted) {
    reject(path, fmt::format("expected {} bytes of {} tokens after the header, found {}", wanted,
                             count, held));
  }
  // The mapping begins at a page, so this is aligned.
  return {reinterpret_cast<const std::uint16_t*>(bytes.data() + sizeof header),
          static_cast<std::size_t>(count)};
}

}  // namespace

Tokens Tokens::of_text(std::string text, std::string source) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  Tokens tokens;
  tokens.owner_ = owner;
  tokens.bytes_ = *owner;
  tokens.source_ = std::move(source);
  return tokens;
}

Tokens Tokens::of_file(const std::string& path) {
  Mapping mapping = map_file(path);
  Tokens tokens;
  if (path.ends_with(".bin")) {
    tokens.wide_ = check_tokens(path, mapping.bytes);
  } else {
    tokens.bytes_ = mapping.bytes;
  }
  tokens.owner_ = std::move(mapping.owner);
  tokens.source_ = path;
  return tokens;
}

std::int64_t Tokens::size() const {
  return static_cast<std::int64_t>(are_bytes() ? bytes_.size() : wide_.size());
}

void Tokens::copy(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  TANDEM_CHECK(0 <= first && first + count <= size(), first, count, size());
  const auto from = static_cast<std::size_t>(first);
  if (are_bytes()) {
    const std::string_view bytes = bytes_.substr(from, out.size());
    std::transform(bytes.begin(), bytes.end(), out.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
  } else {
    const auto numbers = wide_.subspan(from, out.size());
    std::copy(numbers.begin(), numbers.end(), out.begin());
  }
}

void Tokens::check_within(std::int32_t vocabulary) const {
  if (vocabulary > (are_bytes() ? 0xFF : 0xFFFF)) return;
  const auto check = [&](const auto& all, auto value) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](auto token) { return value(token) >= vocabulary; });
    if (found == all.end()) return;
    reject(source_, fmt::format("token {} is {}, beyond a vocabulary of {}", found - all.begin(),
                                value(*found), vocabulary));
  };
  if (are_bytes()) {
    check(bytes_, [](char byte) { return std::int32_t{static_cast<unsigned char>(byte)}; });
  } else {
    check(wide_, [](std::uint16_t token) { return std::int32_t{token}; });
  }
}

void write_token_file(const std::string& path, std::span<const std::uint16_t> tokens) {
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    reject(path, fmt::format("{} tokens are more than a token file can count", tokens.size()));
  const Header header{kMagic, kVersion, static_cast<std::int32_t>(tokens.size())};
  std::string content(sizeof header + tokens.size_bytes(), '\0');
  std::memcpy(content.data(), header.data(), sizeof header);
  if (!tokens.empty())
    std::memcpy(content.data() + sizeof header, tokens.data(), tokens.size_bytes());
  write_file(path, content);
}

}  // namespace tandem
