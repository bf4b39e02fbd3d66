#pragma once
// What is wrong with a trace, gathered so that all of it is reported. Internal to traces/.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

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
