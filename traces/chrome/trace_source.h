#pragma once
// A trace to read: a file, `.json` or `.json.gz`, or a text at hand.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

/// Where a trace comes from; each of both makes one by itself.
struct TraceSource {
  std::string name;                      // the file's path; what messages call a text
  std::optional<std::string_view> text;  // outlives this

  TraceSource(const std::filesystem::path& path)  // NOLINT(google-explicit-constructor)
      : name(path.string()) {}
  TraceSource(std::string_view text_of, std::string name_of)
      : name(std::move(name_of)), text(text_of) {}
};

}  // namespace tandem
