#pragma once
// Files that many configurations share.

#include <map>
#include <mutex>
#include <string>

namespace tandem::tools {

/// What `Read` makes of the file at `path`, which is read at the first call: later ones, on
/// whatever thread, find it as it was. Throws what `Read` throws, each time anew.
template <auto Read>
const auto& read_cached(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, decltype(Read(path))> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(path);
  return (found != known.end() ? found : known.emplace(path, Read(path)).first)->second;
}

}  // namespace tandem::tools
