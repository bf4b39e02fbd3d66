#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/text/json_reader.h"
#include "executor/data/tokenizer/byte_alphabet.h"
#include "executor/data/tokenizer/nfc.h"
#include "executor/data/tokenizer/tokenizer_parts.h"

namespace tandem {
namespace {

constexpr std::size_t kLargestTokenizerJson = std::size_t{64} << 20;
constexpr std::size_t kMostSplits = 16;
constexpr std::size_t kMostAddedTokens = 65'536;

// What ByteLevel cuts by where it does so itself (GPT-2's encoder.py).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Bytes that valid UTF-8 may hold.
bool may_occur(std::size_t byte) { return byte < 0xC0 || (byte >= 0xC2 && byte <= 0xF4); }

bool is_null(const JsonReader& value) { return value.absent() || value.kind() == JsonKind::null; }

class TokenizerFile {
 public:
  TokenizerFile(std::string file, std::string json)
      : file_(std::move(file), std::move(json), kLargestTokenizerJson) {}

  TokenizerParts read() {
    const JsonReader root = file_.root();
    if (root.object({"version", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "post_processor", "decoder", "model"})) {
      if (const JsonReader version = root.optional("version"); !version.absent())
        only(version, "version", {"1.0"});
      for (const char* const key : {"truncation", "padding"}) refuse_unless_null(root, key);
      normalizer(root.optional("normalizer"));
      pre_tokenizer(root["pre_tokenizer"]);
      decoder(root["decoder"]);
      model(root["model"]);
      if (file_.diagnostics() == 0) added_tokens(root.optional("added_tokens"));
      if (file_.diagnostics() == 0) post_processor(root.optional("post_processor"));
    }
    file_.finish();
    return std::move(parts_);
  }

 private:
  /// Diagnoses a string that is none of these.
  static void only(const JsonReader& value, const std::string& what,
                   std::initializer_list<std::string_view> supported) {
    if (value.absent()) return;
    const std::string found = value.string();
    if (std::find(supported.begin(), supported.end(), found) != supported.end()) return;
    std::string names;
    for (const std::string_view name : supported)
      names += fmt::format("{}\"{}\"", names.empty() ? "" : " or ", name);
    value.diagnose(
        fmt::format("the {} \"{}\" is not supported: expected {}", what, shown(found), names));
  }

  static void refuse_unless_null(const JsonReader& object, const char* key) {
    const JsonReader value = object.optional(key);
    if (!is_null(value)) value.diagnose(fmt::format("\"{}\" is not supported: expected null", key));
  }

  static void refuse_if_true(const JsonReader& object, const char* key) {
    const JsonReader value = object.optional(key);
    if (!value.absent() && value.boolean())
      value.diagnose(fmt::format("\"{}\": true is not supported", key));
  }

  /// The type of a component; diagnosed where it has none.
  static std::string type_of(const JsonReader& component) {
    return component.any_object() ? component["type"].string() : std::string();
  }

  static void refuse_type(const JsonReader& component, const std::string& what,
                          const std::string& type) {
    if (const JsonReader found = component.optional("type"); !found.absent())
      found.diagnose(fmt::format("the {} \"{}\" is not supported", what, shown(type)));
  }

  void normalizer(const JsonReader& value) {
    if (is_null(value)) return;
    const std::string type = type_of(value);
    if (type == "Sequence") {
      for (const JsonReader& part : value["normalizers"].array()) normalizer(part);
    } else if (type == "NFC") {
      parts_.nfc = true;
    } else {
      refuse_type(value, "normalizer", type);
    }
  }

  void pre_tokenizer(const JsonReader& value) {
    if (value.absent()) return;
    pre_tokenizer_part(value);
    if (file_.diagnostics() == 0 && !byte_level_)
      value.diagnose("expected a pre-tokenizer that ends in \"ByteLevel\"");
  }

  void pre_tokenizer_part(const JsonReader& value) {
    const std::string type = type_of(value);
    if (type == "Sequence") {
      for (const JsonReader& part : value["pretokenizers"].array()) pre_tokenizer_part(part);
      return;
    }
    if (byte_level_) return value.diagnose("a pre-tokenizer behind \"ByteLevel\" is not supported");
    if (type == "ByteLevel") {
      byte_level_ = true;
      if (value["add_prefix_space"].boolean())
        value["add_prefix_space"].diagnose("\"add_prefix_space\": true is not supported");
      const JsonReader by_regex = value.optional("use_regex");
      if (by_regex.absent() || by_regex.boolean()) split(value, std::string(kGpt2Pattern));
    } else if (type == "Split") {
      only(value["behavior"], "behavior", {"Isolated"});
      refuse_if_true(value, "invert");
      const JsonReader pattern = value["pattern"];
      if (!pattern.object({"Regex"})) return;
      const std::string regex = pattern["Regex"].string();
      if (pattern.has("Regex")) split(pattern["Regex"], regex);
    } else {
      refuse_type(value, "pre-tokenizer", type);
    }
  }

  void split(const JsonReader& where, const std::string& pattern) {
    if (parts_.splits.size() == kMostSplits)
      return where.diagnose(fmt::format("more than {} patterns are not supported", kMostSplits));
    try {
      parts_.splits.emplace_back(pattern);
    } catch (const InputError& error) {
      where.diagnose(error.diagnostics().front().message);
    }
  }

  static void decoder(const JsonReader& value) {
    if (value.absent()) return;
    const std::string type = type_of(value);
    if (type != "ByteLevel") refuse_type(value, "decoder", type);
  }

  void model(const JsonReader& value) {
    if (!value.object({"type", "dropout", "unk_token", "continuing_subword_prefix",
                       "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                       "merges"})) {
      return;
    }
    if (const JsonReader type = value.optional("type"); !type.absent())
      only(type, "model", {"BPE"});
    for (const char* const key : {"dropout", "unk_token"}) refuse_unless_null(value, key);
    for (const char* const key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const JsonReader affix = value.optional(key);
      if (!is_null(affix)) only(affix, key, {""});
    }
    for (const char* const key : {"fuse_unk", "byte_fallback"}) refuse_if_true(value, key);
    const JsonReader whole = value.optional("ignore_merges");
    const bool whole_words = !whole.absent() && whole.boolean();
    vocabulary(value["vocab"]);
    if (file_.diagnostics() > 0) return;
    const std::vector<MergeRow> rows = merges(value["merges"]);
    if (file_.diagnostics() > 0) return;
    parts_.pairs = BytePairs(std::move(by_bytes_), rows, whole_words);
  }

  /// Keeps the bytes of a token, written as `text`.
  void keep(const JsonReader& where, std::int32_t id, std::string bytes) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= parts_.bytes.size()) parts_.bytes.resize(at + 1);
    if (bytes.empty()) return where.diagnose("an empty token is not supported");
    if (!parts_.bytes[at].empty())
      return where.diagnose(fmt::format("two tokens have the id {}", id));
    parts_.bytes[at] = std::move(bytes);
  }

  void vocabulary(const JsonReader& value) {
    if (value.absent() || !value.any_object()) return;
    std::vector<bool> has(256);
    for (auto& [text, id_of] : value.members()) {
      if (file_.full()) return;
      const std::int32_t id = id_of.integer<std::int32_t>(0, kMostTokenIds - 1);
      std::optional<std::string> bytes = bytes_of_token(text);
      if (bytes && bytes->size() == 1) has[static_cast<unsigned char>(bytes->front())] = true;
      if (bytes && !bytes->empty()) by_bytes_.emplace_back(*bytes, id);
      keep(id_of, id, bytes ? *std::move(bytes) : text);
      ids_.emplace(std::move(text), id);
    }
    for (std::size_t byte = 0; byte < has.size(); ++byte) {
      if (has[byte] || !may_occur(byte)) continue;
      return value.diagnose(
          fmt::format("the byte 0x{:02X} has no token, which is not supported", byte));
    }
  }

  std::vector<MergeRow> merges(const JsonReader& value) {
    std::vector<MergeRow> rows;
    std::set<std::pair<std::int32_t, std::int32_t>> seen;
    if (value.absent()) return rows;
    for (const JsonReader& merge : value.array()) {
      if (file_.full()) return rows;
      std::string left, right;
      if (!sides_of(merge, left, right)) continue;
      const std::int32_t left_id = id_in_merge(merge, left), right_id = id_in_merge(merge, right);
      if (left_id < 0 || right_id < 0) continue;
      const std::int32_t joined = id_in_merge(merge, left + right);
      if (joined < 0) continue;
      if (!seen.emplace(left_id, right_id).second) {
        merge.diagnose("this merge is there twice");
        continue;
      }
      rows.push_back({.left = left_id, .right = right_id, .joined = joined});
    }
    return rows;
  }

  /// Of "a b" or ["a", "b"]; false: diagnosed.
  static bool sides_of(const JsonReader& merge, std::string& left, std::string& right) {
    if (merge.kind() == JsonKind::array) {
      const std::vector<JsonReader> sides = merge.array();
      if (sides.size() != 2) {
        merge.expected("a merge of two tokens");
        return false;
      }
      left = sides[0].string();
      right = sides[1].string();
    } else {
      const std::string both = merge.string();
      const std::size_t space = both.find(' ');
      if (space == both.npos || both.find(' ', space + 1) != both.npos) {
        merge.expected("a merge of two tokens with one space between");
        return false;
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    return true;
  }

  /// −1: diagnosed.
  std::int32_t id_in_merge(const JsonReader& merge, const std::string& token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      merge.diagnose(
          fmt::format("the token \"{}\" of this merge is not in the vocabulary", shown(token)));
      return -1;
    }
    if (!bytes_of_token(token)) {
      merge.diagnose(
          fmt::format("the token \"{}\" of this merge is not written in bytes", shown(token)));
      return -1;
    }
    return found->second;
  }

  void added_tokens(const JsonReader& value) {
    if (is_null(value)) return;
    const std::vector<JsonReader> all = value.array();
    if (all.size() > kMostAddedTokens)
      return value.diagnose(
          fmt::format("more than {} added tokens are not supported", kMostAddedTokens));
    for (const JsonReader& token : all) {
      if (file_.full()) return;
      added_token(token);
    }
    std::sort(parts_.added_ids.begin(), parts_.added_ids.end());
  }

  void added_token(const JsonReader& token) {
    if (!token.object(
            {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}))
      return;
    const std::size_t before = file_.diagnostics();
    for (const char* const key : {"single_word", "lstrip", "rstrip"}) refuse_if_true(token, key);
    const std::int32_t id = token["id"].integer<std::int32_t>(0, kMostTokenIds - 1);
    std::string content = token["content"].string();
    const bool normalized = token["normalized"].boolean();
    if (content.empty() || content.size() > kLongestAddedToken) {
      token["content"].diagnose(
          fmt::format("expected 1 to {} bytes, found {}", kLongestAddedToken, content.size()));
    }
    if (!added_contents_.insert(content).second)
      token["content"].diagnose("this added token is there twice");
    if (file_.diagnostics() > before) return;
    // What the library does: a token that the vocabulary has keeps that id, another gets the next.
    const auto known = ids_.find(content);
    const std::int32_t expected = known != ids_.end() ? known->second : next_added_id();
    if (id != expected) {
      return token["id"].diagnose(
          fmt::format("expected {}, {}, found {}", expected,
                      known != ids_.end() ? "the id in the vocabulary" : "the next free id", id));
    }
    if (known == ids_.end())
      keep(token["id"], id, content);
    else
      parts_.bytes[static_cast<std::size_t>(id)] = content;
    if (normalized && parts_.nfc) {
      std::string storage;
      parts_.added_normalized.add(to_nfc(content, storage), id);
    } else {
      (normalized ? parts_.added_normalized : parts_.added).add(content, id);
    }
    parts_.added_ids.emplace_back(std::move(content), id);
  }

  std::int32_t next_added_id() const { return static_cast<std::int32_t>(parts_.bytes.size()); }

  void post_processor(const JsonReader& value) {
    if (is_null(value)) return;
    const std::string type = type_of(value);
    if (type == "Sequence") {
      for (const JsonReader& part : value["processors"].array()) post_processor(part);
    } else if (type == "TemplateProcessing") {
      surround(value);
    } else if (type != "ByteLevel") {
      refuse_type(value, "post-processor", type);
    }
  }

  /// What a template puts before and behind a text.
  void surround(const JsonReader& value) {
    const JsonReader tokens = value["special_tokens"];
    std::vector<std::int32_t> before, behind;
    bool seen = false;
    for (const JsonReader& piece : value["single"].array()) {
      if (!piece.object({"SpecialToken", "Sequence"})) return;
      if (piece.has("Sequence")) {
        only(piece["Sequence"]["id"], "sequence", {"A"});
        if (seen) piece.diagnose("a text twice is not supported");
        seen = true;
        continue;
      }
      const std::string name = piece["SpecialToken"]["id"].string();
      if (tokens.absent() || piece.optional("SpecialToken").absent()) return;
      for (const JsonReader& id : tokens[name]["ids"].array()) {
        const std::int32_t token = id.integer<std::int32_t>(0, next_added_id() - 1);
        (seen ? behind : before).push_back(token);
      }
    }
    if (!seen) value["single"].diagnose("expected the sequence \"A\" in the template");
    parts_.before.insert(parts_.before.begin(), before.begin(), before.end());
    parts_.behind.insert(parts_.behind.end(), behind.begin(), behind.end());
  }

  JsonFile file_;
  TokenizerParts parts_;
  bool byte_level_ = false;
  std::unordered_map<std::string, std::int32_t> ids_;  // by the text in the vocabulary
  std::vector<std::pair<std::string, std::int32_t>> by_bytes_;
  std::set<std::string> added_contents_;
};

}  // namespace

TokenizerParts read_tokenizer(std::string file, std::string json) {
  return TokenizerFile(std::move(file), std::move(json)).read();
}

}  // namespace tandem
