#include "executor/data/tokens.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/mapped_file.h"
#include "executor/data/token_file.h"

namespace tandem {
namespace {

constexpr std::size_t kMostShards = 100'000;

[[noreturn]] void reject(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

template <class T>
std::span<const T> values_in(std::string_view bytes) {
  // A mapping begins at a page and a header has 1024 bytes, so this is aligned.
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// The token files in a folder, in the order of their names.
std::vector<std::string> token_files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".bin") files.push_back(entry->path().string());
    if (files.size() > kMostShards)
      reject(folder, fmt::format("more than {} token files", kMostShards));
  }
  if (error) reject(folder, error.message());
  if (files.empty()) reject(folder, "a folder without token files (.bin)");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Tokens Tokens::of_text(std::string text, std::string source) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  Tokens tokens;
  tokens.add({.owner = owner, .values = values_in<unsigned char>(*owner), .source = source});
  tokens.source_ = std::move(source);
  return tokens;
}

Tokens Tokens::of_numbers(std::vector<std::int32_t> numbers, std::string source) {
  const auto owner =
      std::make_shared<const std::vector<std::uint32_t>>(numbers.begin(), numbers.end());
  Tokens tokens;
  tokens.add({.owner = owner, .values = std::span<const std::uint32_t>(*owner), .source = source});
  tokens.source_ = std::move(source);
  return tokens;
}

Tokens::Shard Tokens::shard_of(const std::string& path) {
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  if (bytes.empty()) reject(path, "the file is empty");
  Shard shard{.owner = file.owner(), .values = {}, .source = path};
  if (!path.ends_with(".bin")) {
    shard.values = values_in<unsigned char>(bytes);
    return shard;
  }
  const TokenFileLayout layout = token_file_layout(path, bytes);
  shard.has_header = layout.has_header;
  const std::string_view numbers = bytes.substr(layout.first);
  if (layout.width == 4)
    shard.values = values_in<std::uint32_t>(numbers);
  else
    shard.values = values_in<std::uint16_t>(numbers);
  return shard;
}

Tokens Tokens::of_file(const std::string& path) {
  Tokens tokens;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const std::string& file : token_files_in(path)) tokens.add(shard_of(file));
  } else {
    tokens.add(shard_of(path));
  }
  tokens.source_ = path;
  return tokens;
}

void Tokens::add(Shard shard) {
  const auto count = std::visit([](auto values) { return values.size(); }, shard.values);
  starts_.push_back(starts_.back() + static_cast<std::int64_t>(count));
  shards_.push_back(std::move(shard));
}

bool Tokens::are_bytes() const {
  return shards_.size() == 1 &&
         std::holds_alternative<std::span<const unsigned char>>(shards_.front().values);
}

std::string_view Tokens::text() const {
  TANDEM_CHECK(are_bytes());
  const auto bytes = std::get<std::span<const unsigned char>>(shards_.front().values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view Tokens::without_header() const {
  const auto found = std::find_if(shards_.begin(), shards_.end(),
                                  [](const Shard& shard) { return !shard.has_header; });
  return found != shards_.end() ? std::string_view(found->source) : std::string_view();
}

void Tokens::copy(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  TANDEM_CHECK(0 <= first && first + count <= size(), first, count, size());
  auto shard = static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), first) -
                                        starts_.begin()) -
               1;
  while (!out.empty()) {
    const auto from = static_cast<std::size_t>(first - starts_[shard]);
    const auto here = std::min(out.size(), static_cast<std::size_t>(starts_[shard + 1] - first));
    std::visit(
        [&](auto values) {
          std::transform(values.begin() + static_cast<std::ptrdiff_t>(from),
                         values.begin() + static_cast<std::ptrdiff_t>(from + here), out.begin(),
                         [](auto token) { return static_cast<std::int32_t>(token); });
        },
        shards_[shard].values);
    out = out.subspan(here);
    first += static_cast<std::int64_t>(here);
    ++shard;
  }
}

std::uint64_t Tokens::digest() const {
  constexpr std::int64_t kPlaces = 256, kLength = 16;
  std::vector<std::int64_t> seen{size()};
  std::vector<std::int32_t> some(static_cast<std::size_t>(std::min(kLength, size())));
  for (std::int64_t place = 0; place < kPlaces; ++place) {
    copy((size() - std::ssize(some)) / (kPlaces - 1) * place, some);
    seen.insert(seen.end(), some.begin(), some.end());
  }
  return hash_of_times(seen, 0);
}

void Tokens::check_within(std::int32_t vocabulary) const {
  for (const Shard& shard : shards_) {
    const auto check = [&]<class T>(std::span<const T> values) {
      if (std::int64_t{std::numeric_limits<T>::max()} < vocabulary) return;
      const auto found = std::find_if(values.begin(), values.end(),
                                      [&](T token) { return std::int64_t{token} >= vocabulary; });
      if (found == values.end()) return;
      reject(shard.source, fmt::format("token {} is {}, beyond a vocabulary of {}",
                                       found - values.begin(), *found, vocabulary));
    };
    std::visit(check, shard.values);
  }
}

}  // namespace tandem
