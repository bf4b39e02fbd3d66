#include "executor/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/text/replacement.h"
#include "executor/data/tokens.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

using Header = std::array<std::int32_t, 256>;

struct Kind {
  std::int32_t magic, version;
  std::size_t width;  // bytes of a token
};
constexpr std::array<Kind, 2> kKinds{{{20240520, 1, 2}, {20240801, 7, 4}}};

constexpr std::size_t kPiece = std::size_t{1} << 18;  // tokens written at once

[[noreturn]] void refuse_token_file(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

template <class T>
void write_as(Replacement& file, std::span<const std::int32_t> tokens) {
  std::vector<T> piece;
  while (!tokens.empty()) {
    const std::span<const std::int32_t> next = tokens.first(std::min(tokens.size(), kPiece));
    piece.clear();
    for (const std::int32_t token : next) piece.push_back(static_cast<T>(token));
    file.write({reinterpret_cast<const char*>(piece.data()), piece.size() * sizeof(T)});
    tokens = tokens.subspan(next.size());
  }
}

}  // namespace

TokenFileLayout token_file_layout(const std::string& path, std::string_view bytes) {
  Header header{};
  std::memcpy(header.data(), bytes.data(), std::min(bytes.size(), sizeof header));
  const auto [magic, version, count] = std::array{header[0], header[1], header[2]};
  const auto* const kind = std::find_if(kKinds.begin(), kKinds.end(),
                                        [&](const Kind& each) { return each.magic == magic; });
  if (bytes.size() < sizeof magic || kind == kKinds.end()) {
    if (bytes.size() % 2 == 0) return {.first = 0, .width = 2, .has_header = false};
    refuse_token_file(path,
                      fmt::format("no token file: it begins with neither {} nor {}, and its {} "
                                  "bytes can't be tokens of 2 each",
                                  kKinds[0].magic, kKinds[1].magic, bytes.size()));
  }
  if (bytes.size() < sizeof header) {
    refuse_token_file(path, fmt::format("{} bytes can't be a token file: its header alone has {}",
                                        bytes.size(), sizeof header));
  }
  if (version != kind->version) {
    refuse_token_file(
        path, fmt::format("expected version {} of token files, found {}", kind->version, version));
  }
  if (count <= 0)
    refuse_token_file(path, fmt::format("expected at least one token, found {}", count));
  const std::size_t held = bytes.size() - sizeof header;
  const std::size_t wanted = static_cast<std::size_t>(count) * kind->width;
  if (held != wanted) {
    refuse_token_file(path, fmt::format("expected {} bytes of {} tokens after the header, found {}",
                                        wanted, count, held));
  }
  return {.first = sizeof header, .width = kind->width};
}

void write_token_file(const std::string& path, std::span<const std::int32_t> tokens) {
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    refuse_token_file(path,
                      fmt::format("{} tokens are more than a token file can count", tokens.size()));
  }
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  TANDEM_CHECK(tokens.empty() || *least >= 0);
  const bool wide = !tokens.empty() && *most > std::numeric_limits<std::uint16_t>::max();
  const Kind& kind = kKinds[wide ? 1 : 0];
  const Header header{kind.magic, kind.version, static_cast<std::int32_t>(tokens.size())};
  Replacement file(path);
  file.write({reinterpret_cast<const char*>(header.data()), sizeof header});
  if (wide)
    write_as<std::uint32_t>(file, tokens);
  else
    write_as<std::uint16_t>(file, tokens);
  file.commit();
}

}  // namespace tandem
