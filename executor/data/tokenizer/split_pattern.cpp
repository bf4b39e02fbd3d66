#include "executor/data/tokenizer/split_pattern.h"

#include <array>
#include <string>

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "executor/data/tokenizer/split_syntax.h"

namespace tandem {
namespace {

constexpr std::uint32_t kMostSteps = 10'000'000;
constexpr std::uint32_t kMostHeapKib = 64 << 10;
constexpr std::size_t kLeastStack = std::size_t{32} << 10, kMostStack = std::size_t{4} << 20;

std::string reason_of_pcre2(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class T, class Free>
std::shared_ptr<void> owned(T* made, Free free) {
  TANDEM_CHECK(made != nullptr);
  return {made, [free](void* memory) { free(static_cast<T*>(memory)); }};
}

std::string configured(std::uint32_t what) {
  std::array<char, 64> text{};
  pcre2_config(what, text.data());
  return text.data();
}

const pcre2_code* code_in(const std::shared_ptr<void>& code) {
  return static_cast<const pcre2_code*>(code.get());
}

}  // namespace

std::string_view SplitPattern::unicode_version() {
  static const std::string version = configured(PCRE2_CONFIG_UNICODE_VERSION);
  return version;
}

std::string_view SplitPattern::library_version() {
  static const std::string all = configured(PCRE2_CONFIG_VERSION);
  return std::string_view(all).substr(0, all.find(' '));
}

SplitPattern::SplitPattern(std::string_view pattern) {
  const std::string translated = pcre2_pattern(pattern);
  const auto context = owned(pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(static_cast<pcre2_compile_context*>(context.get()), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                    static_cast<pcre2_compile_context*>(context.get()));
  if (code == nullptr)
    throw InputError(fmt::format("the split pattern is malformed: {}", reason_of_pcre2(error)));
  code_ = owned(code, pcre2_code_free);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no JIT, it is interpreted
  const Search search(*this);
  Match match;
  search.find({}, 0, match);
}

SplitPattern::Search::Search(const SplitPattern& pattern)
    : code_(pattern.code_),
      context_(owned(pcre2_match_context_create(nullptr), pcre2_match_context_free)),
      stack_(owned(pcre2_jit_stack_create(kLeastStack, kMostStack, nullptr), pcre2_jit_stack_free)),
      found_(owned(pcre2_match_data_create_from_pattern(code_in(pattern.code_), nullptr),
                   pcre2_match_data_free)) {
  auto* const context = static_cast<pcre2_match_context*>(context_.get());
  pcre2_set_match_limit(context, kMostSteps);
  pcre2_set_heap_limit(context, kMostHeapKib);
  pcre2_jit_stack_assign(context, nullptr, stack_.get());
}

bool SplitPattern::Search::find(std::string_view text, std::size_t from, Match& match) const {
  auto* const found = static_cast<pcre2_match_data*>(found_.get());
  const int count =
      pcre2_match(code_in(code_), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, found, static_cast<pcre2_match_context*>(context_.get()));
  if (count == PCRE2_ERROR_NOMATCH) return false;
  if (count < 0) {
    throw InputError(fmt::format("the split pattern fails at byte {} of a text: {}", from,
                                 reason_of_pcre2(count)));
  }
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(found);
  match = {.first = ends[0], .last = ends[1]};
  if (match.first == match.last)
    throw InputError("the split pattern matches an empty text, which is not supported");
  return true;
}

}  // namespace tandem
