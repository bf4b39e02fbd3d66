#pragma once
// The processes of this host, for tests that look for theirs.

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/types.h>

namespace tandem::testing {

inline std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

inline std::filesystem::path folder_of_process(pid_t process) {
  return "/proc/" + std::to_string(process);
}

/// "NAME=VALUE", each with a zero behind it; empty where it has ended, which an iterator of the
/// stream would throw at.
inline std::string environment_of(pid_t process) {
  std::ifstream stream(folder_of_process(process) / "environ", std::ios::binary);
  std::string text;
  std::array<char, 4096> part{};
  do {
    stream.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(stream.gcount()));
  } while (stream);
  return text;
}

}  // namespace tandem::testing
