#include "executor/data/tokenizer/nfc.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <utf8proc.h>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace tandem {
namespace {

using Range = std::pair<std::uint32_t, std::uint32_t>;  // [first, last)

// Characters that form C leaves alone and never joins to the one before, so that a text may be cut
// before each. Not all that there are: those of most texts.
constexpr std::array<Range, 11> kSafe{{{0x0, 0x300},
                                       {0x400, 0x483},
                                       {0x48A, 0x530},
                                       {0x2010, 0x2028},
                                       {0x3001, 0x302A},
                                       {0x3041, 0x3097},
                                       {0x30A1, 0x30FB},
                                       {0x4E00, 0xA000},
                                       {0xAC00, 0xD7A4},
                                       {0xFF01, 0xFF61},
                                       {0x1F300, 0x1FB00}}};

// Marks and second halves that Unicode has known since version 10. The tokenizers library composes
// by version 9, so that its ids never change: to it they are characters like any other.
// tests/executor/data/tokenizer/hugging_face.py compares.
constexpr std::array<Range, 44> kTooNew{
    {{0x7FD, 0x7FE},     {0x897, 0x8A0},     {0x8CA, 0x8D4},     {0x9FE, 0x9FF},
     {0xC3C, 0xC3D},     {0xD3B, 0xD3D},     {0xEBA, 0xEBB},     {0x1715, 0x1716},
     {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82D},   {0x10D24, 0x10D28},
     {0x10D69, 0x10D6E}, {0x10EAB, 0x10EAD}, {0x10EFA, 0x10F00}, {0x10F46, 0x10F51},
     {0x10F82, 0x10F86}, {0x11070, 0x11071}, {0x1133B, 0x1133C}, {0x113B8, 0x113D1},
     {0x113E1, 0x113E3}, {0x1145E, 0x1145F}, {0x11839, 0x1183B}, {0x11930, 0x11931},
     {0x1193D, 0x1193F}, {0x11943, 0x11944}, {0x119E0, 0x119E1}, {0x11A34, 0x11A35},
     {0x11A47, 0x11A48}, {0x11A99, 0x11A9A}, {0x11D42, 0x11D43}, {0x11D44, 0x11D46},
     {0x11D97, 0x11D98}, {0x11F41, 0x11F43}, {0x1611E, 0x16130}, {0x16D63, 0x16D6B},
     {0x16FF0, 0x16FF2}, {0x1E08F, 0x1E090}, {0x1E130, 0x1E137}, {0x1E2AE, 0x1E2AF},
     {0x1E2EC, 0x1E2F0}, {0x1E4EC, 0x1E4F0}, {0x1E5EE, 0x1E5F0}, {0x1E6E0, 0x1E6F6}}};

std::uint32_t character_at(std::string_view text, std::size_t at, std::size_t size) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (size == 1) return byte(0);
  std::uint32_t character = byte(0) & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) character = character << 6u | (byte(i) & 0x3Fu);
  return character;
}

bool in(const auto& ranges, std::uint32_t character) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return character >= range.first && character < range.second;
  });
}

/// Bytes of the character at `at`.
std::size_t size_at(std::string_view text, std::size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

enum class Cut : std::uint8_t { before, around, nowhere };

/// Where the text may be cut at the character at `at`.
Cut cut_at(std::string_view text, std::size_t at) {
  if (static_cast<unsigned char>(text[at]) < 0xCC) return Cut::before;
  const std::uint32_t character = character_at(text, at, size_at(text, at));
  if (in(kSafe, character)) return Cut::before;
  return in(kTooNew, character) ? Cut::around : Cut::nowhere;
}

std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size < 0)
    throw InputError(fmt::format("a text can't be normalized: {}", utf8proc_errmsg(size)));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

}  // namespace

std::string_view nfc_library_version() { return utf8proc_version(); }

std::string_view to_nfc(std::string_view text, std::string& storage) {
  storage.clear();
  std::size_t kept = 0;  // of `text`, what `storage` has or what needs no change
  bool changed = false;
  std::size_t first = 0;  // of the piece
  for (std::size_t at = 0; at < text.size();) {
    const Cut cut = cut_at(text, at);
    if (cut != Cut::nowhere) {
      first = cut == Cut::before ? at : at + size_at(text, at);
      at += size_at(text, at);
      continue;
    }
    while (at < text.size() && cut_at(text, at) == Cut::nowhere) at += size_at(text, at);
    const std::string_view piece = text.substr(first, at - first);
    const std::string now = composed(piece);
    if (now != piece) {
      changed = true;
      storage.append(text, kept, first - kept);
      storage += now;
      kept = at;
    }
    first = at;
  }
  if (!changed) return text;
  storage.append(text, kept, text.size() - kept);
  return storage;
}

}  // namespace tandem
