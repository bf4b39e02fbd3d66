#pragma once
// Notice: what is said to a user beside results. Nothing below tools prints.

#include <functional>
#include <string>

namespace tandem {

/// Takes a line, from whatever thread. May be empty: nobody listens.
using Notice = std::function<void(const std::string&)>;

inline void tell(const Notice& notice, const std::string& line) {
  if (notice) notice(line);
}

}  // namespace tandem
