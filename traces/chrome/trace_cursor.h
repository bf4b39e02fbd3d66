#pragma once
// A value of a trace and where it stands, and what is wrong with a trace, gathered so that all of
// it is reported: for readers of traces. Internal to traces/.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "traces/chrome/trace_events.h"

namespace tandem {

/// Reads values, and knows where they stand. Cheap to make: the pointer is put together only in a
/// message.
class TraceCursor {
 public:
  /// Nanoseconds: so far a double is exact.
  static constexpr std::int64_t kLatest = std::int64_t{1} << 53;

  TraceCursor(const std::string& file, std::string_view root, std::size_t position,
              const nlohmann::json& value)
      : file_(file), root_(root), value_(value) {
    push({{}, position});
  }
  TraceCursor(const std::string& file, std::string_view root, const nlohmann::json& value)
      : file_(file), root_(root), value_(value) {}

  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(
        Diagnostic{.message = message, .place = {.file = file_, .pointer = pointer()}});
  }

  bool is_null() const { return value_.is_null(); }
  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  TraceCursor operator[](const char* key) const {
    if (!has(key)) fail(fmt::format("expected \"{}\"", key));
    return {*this, {key, 0}, value_.at(key)};
  }
  TraceCursor operator[](std::size_t position) const {
    return {*this, {{}, position}, value_.at(position)};
  }
  std::size_t size() const {
    if (!value_.is_array()) fail("expected an array");
    return value_.size();
  }
  std::string text() const {
    if (!value_.is_string()) fail("expected a string");
    return value_.get<std::string>();
  }
  std::int64_t integer(std::int64_t least, std::int64_t most) const {
    const bool fits = value_.is_number_integer() &&
                      (!value_.is_number_unsigned() ||
                       value_.get<std::uint64_t>() <= std::uint64_t(most < 0 ? 0 : most));
    if (!fits || value_.get<std::int64_t>() < least || value_.get<std::int64_t>() > most)
      fail(fmt::format("expected an integer from {} to {}", least, most));
    return value_.get<std::int64_t>();
  }
  /// Any time that a difference to another such one can be taken of.
  Duration moment() const {
    const auto found = find_moment();
    if (!found) fail("expected a time in microseconds");
    return *found;
  }
  /// Since a moment().
  Duration time(Duration since = {}) const {
    const auto found = find_moment();
    if (!found || *found - since > Duration(kLatest) || since - *found > Duration(kLatest))
      fail("expected a time in microseconds, less than 104 days");
    return *found - since;
  }
  template <class Kind>
  Kind kind(std::size_t count) const {
    const std::string word = text();
    for (std::size_t i = 0; i < count; ++i) {
      if (name(static_cast<Kind>(i)) == word) return static_cast<Kind>(i);
    }
    fail(fmt::format("\"{}\" is not known", word));
  }

 private:
  struct Place {
    std::string_view key;  // empty: an element of an array
    std::size_t position = 0;
  };
  static constexpr std::size_t kDeepest = 4;

  TraceCursor(const TraceCursor& parent, Place place, const nlohmann::json& value)
      : file_(parent.file_),
        root_(parent.root_),
        places_(parent.places_),
        depth_(parent.depth_),
        value_(value) {
    push(place);
  }
  std::optional<Duration> find_moment() const {
    constexpr std::int64_t kFarthest = (std::int64_t{1} << 62) - 1;
    const auto nanoseconds = trace_nanoseconds(value_);
    if (!nanoseconds || *nanoseconds > kFarthest || *nanoseconds < -kFarthest) return std::nullopt;
    return Duration(*nanoseconds);
  }
  void push(Place place) {
    TANDEM_CHECK(depth_ < kDeepest, depth_);
    places_[depth_++] = place;
  }
  std::string pointer() const {
    std::string text(root_);
    for (std::size_t i = 0; i < depth_; ++i) {
      text += places_[i].key.empty() ? fmt::format("/{}", places_[i].position)
                                     : fmt::format("/{}", places_[i].key);
    }
    return text;
  }

  const std::string& file_;
  std::string_view root_;
  std::array<Place, kDeepest> places_{};
  std::size_t depth_ = 0;
  const nlohmann::json& value_;
};

class TraceDiagnostics {
 public:
  explicit TraceDiagnostics(std::string file) : file_(std::move(file)) {}

  bool empty() const { return all_.empty(); }
  bool full() const { return all_.size() >= kMost; }
  void add(const InputError& error) {
    all_.insert(all_.end(), error.diagnostics().begin(), error.diagnostics().end());
  }
  /// About the whole file.
  void add(std::string message) {
    all_.push_back({.message = std::move(message), .place = {.file = file_}});
  }
  /// About an event, by its position.
  void add(std::size_t event, std::string message) {
    add(std::move(message));
    all_.back().place.pointer = fmt::format("/traceEvents/{}", event);
  }

  /// Throws InputError if there are any. `bare`: the events are the document, not a member of it.
  void refuse(bool bare = false) {
    if (all_.empty()) return;
    for (Diagnostic& diagnostic : all_) {
      constexpr std::string_view kRoot = "/traceEvents";
      std::string& pointer = diagnostic.place.pointer;
      if (bare && pointer.starts_with(kRoot)) pointer.erase(0, kRoot.size());
    }
    throw InputError(std::move(all_));
  }

 private:
  static constexpr std::size_t kMost = 20;

  std::string file_;
  std::vector<Diagnostic> all_;
};

}  // namespace tandem
