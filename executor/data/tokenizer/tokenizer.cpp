#include "executor/data/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/files.h"
#include "executor/data/tokenizer/nfc.h"
#include "executor/data/tokenizer/tokenizer_parts.h"

namespace tandem {
namespace {

constexpr std::size_t kLargestTokenizer = std::size_t{64} << 20;

/// A hash of a short word that is quick rather than good.
std::uint64_t quick_hash(std::string_view word) {
  std::uint64_t head = 0, tail = 0;
  const std::size_t half = std::min(word.size(), std::size_t{8});
  std::memcpy(&head, word.data(), half);
  std::memcpy(&tail, word.data() + word.size() - half, half);
  std::uint64_t hash = (head ^ word.size()) * 0x9E3779B97F4A7C15u;
  hash = (hash ^ (hash >> 29u) ^ tail) * 0xBF58476D1CE4E5B9u;
  return hash ^ (hash >> 32u);
}

}  // namespace

/// Words and their ids: a table in which the last word met of those with one hash stays.
class Tokenizer::Encoder::Memory {
 public:
  explicit Memory(const std::vector<SplitPattern>& splits) : slots_(kSlots) {
    for (const SplitPattern& split : splits) searches_.emplace_back(split);
  }

  const SplitPattern::Search& search(std::size_t split) const { return searches_[split]; }
  std::string& normalized() { return normalized_; }

  void encode(std::string_view word, const BytePairs& pairs, std::vector<std::int32_t>& ids) {
    if (word.empty()) return;
    if (word.size() > kLongest) return pairs.encode(word, ids);
    Slot& slot = slots_[quick_hash(word) % kSlots];
    if (slot.size != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0) {
      const std::size_t before = ids.size();
      pairs.encode(word, ids);
      const std::size_t count = ids.size() - before;
      if (count > kMostIds) return;
      slot.size = static_cast<std::uint8_t>(word.size());
      slot.count = static_cast<std::uint8_t>(count);
      std::memcpy(slot.word.data(), word.data(), word.size());
      std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), slot.ids.begin());
      return;
    }
    ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
  }

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 16, kLongest = 30, kMostIds = 8;
  struct alignas(64) Slot {
    std::uint8_t size = 0, count = 0;
    std::array<char, kLongest> word{};
    std::array<std::int32_t, kMostIds> ids{};
  };

  std::vector<Slot> slots_;
  std::vector<SplitPattern::Search> searches_;
  std::string normalized_;
};

Tokenizer Tokenizer::of_file(const std::string& path) {
  std::error_code error;
  const std::string file = std::filesystem::is_directory(path, error)
                               ? (std::filesystem::path(path) / "tokenizer.json").string()
                               : path;
  return {file, read_file(file, kLargestTokenizer)};
}

Tokenizer::Tokenizer(std::string file, std::string json)
    : file_(std::move(file)),
      parts_(std::make_shared<TokenizerParts>(read_tokenizer(file_, std::move(json)))) {}

std::int32_t Tokenizer::vocabulary() const {
  return static_cast<std::int32_t>(parts_->bytes.size());
}

std::optional<std::int32_t> Tokenizer::added_token(std::string_view content) const {
  const auto& all = parts_->added_ids;
  const auto found =
      std::lower_bound(all.begin(), all.end(), content,
                       [](const auto& token, std::string_view key) { return token.first < key; });
  if (found == all.end() || found->first != content) return std::nullopt;
  return found->second;
}

std::optional<std::int32_t> Tokenizer::end_of_text() const {
  for (const char* const content : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    if (const std::optional<std::int32_t> id = added_token(content)) return id;
  }
  return std::nullopt;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const bool inside = id >= 0 && id < vocabulary();
    if (!inside || parts_->bytes[static_cast<std::size_t>(id)].empty())
      throw InputError(fmt::format("{}: there is no token {}", file_, id));
    text += parts_->bytes[static_cast<std::size_t>(id)];
  }
  return text;
}

Tokenizer::Encoder::Encoder(const Tokenizer& tokenizer)
    : parts_(tokenizer.parts_), memory_(std::make_unique<Memory>(parts_->splits)) {}

Tokenizer::Encoder::~Encoder() = default;

void Tokenizer::Encoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  if (const std::size_t invalid = first_invalid_utf8(text); invalid < text.size()) {
    throw InputError(fmt::format("expected UTF-8, found the byte 0x{:02X} at byte {}",
                                 static_cast<unsigned char>(text[invalid]), invalid));
  }
  ids.insert(ids.end(), parts_->before.begin(), parts_->before.end());
  AddedTokens::Match match;
  std::size_t at = 0;
  while (parts_->added.find(text, at, match)) {
    encode_normalized(text.substr(at, match.first - at), ids);
    ids.push_back(match.id);
    at = match.last;
  }
  encode_normalized(text.substr(at), ids);
  ids.insert(ids.end(), parts_->behind.begin(), parts_->behind.end());
}

void Tokenizer::Encoder::encode_normalized(std::string_view text, std::vector<std::int32_t>& ids) {
  if (parts_->nfc) text = to_nfc(text, memory_->normalized());
  AddedTokens::Match match;
  std::size_t at = 0;
  while (parts_->added_normalized.find(text, at, match)) {
    encode_piece(text.substr(at, match.first - at), 0, ids);
    ids.push_back(match.id);
    at = match.last;
  }
  encode_piece(text.substr(at), 0, ids);
}

void Tokenizer::Encoder::encode_piece(std::string_view text, std::size_t split,
                                      std::vector<std::int32_t>& ids) {
  if (text.empty()) return;
  if (split == parts_->splits.size()) return memory_->encode(text, parts_->pairs, ids);
  const SplitPattern::Search& search = memory_->search(split);
  SplitPattern::Match match;
  std::size_t at = 0;
  while (at < text.size() && search.find(text, at, match)) {
    encode_piece(text.substr(at, match.first - at), split + 1, ids);
    encode_piece(text.substr(match.first, match.last - match.first), split + 1, ids);
    at = match.last;
  }
  encode_piece(text.substr(at), split + 1, ids);
}

}  // namespace tandem
