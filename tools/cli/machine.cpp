#include "tools/cli/machine.h"

#include <ctime>
#include <fstream>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "tandem_build_info.h"

namespace tandem::tools {

std::string machine_name() {
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return fmt::format("{}, {} cores", line.substr(colon + 2),
                         std::thread::hardware_concurrency());
    }
  }
  return fmt::format("unknown processor, {} cores", std::thread::hardware_concurrency());
}

std::string tool_name() { return fmt::format("tandem {}", build_info::kVersion); }

std::string utc_now() { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace tandem::tools
