#include "tools/cli/processor_use.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include <unistd.h>

namespace tandem::tools {

namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

ProcessorTicks ticks_now() {
  return parse_processor_ticks(text_of("/proc/stat"), text_of("/proc/self/stat"));
}

}  // namespace

ProcessorTicks parse_processor_ticks(std::string_view machine, std::string_view process) {
  ProcessorTicks ticks;
  // "cpu  user nice system idle iowait irq softirq steal guest …", summed over all processors.
  std::istringstream cpu{std::string(machine.substr(0, machine.find('\n')))};
  std::string label;
  std::int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  if (!(cpu >> label >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal)) return {};
  ticks.busy = user + nice + system + irq + soft;
  ticks.stolen = steal;
  // The process's name may hold spaces and parentheses: fields are counted from the last ")".
  const std::size_t end_of_name = process.rfind(')');
  if (end_of_name == std::string_view::npos) return {};
  std::istringstream fields{std::string(process.substr(end_of_name + 1))};
  constexpr int kFieldsBeforeTimes = 11;
  for (int i = 0; i < kFieldsBeforeTimes; ++i) fields >> label;
  std::int64_t own_user = 0, own_system = 0;
  if (!(fields >> own_user >> own_system)) return {};
  ticks.own = own_user + own_system;
  return ticks;
}

ProcessorWatch::ProcessorWatch() : last_(ticks_now()), looked_(std::chrono::steady_clock::now()) {}

ProcessorUse ProcessorWatch::since_last() {
  const ProcessorTicks now = ticks_now();
  const auto looked = std::chrono::steady_clock::now();
  const double ticks = std::chrono::duration<double>(looked - looked_).count() *
                       static_cast<double>(sysconf(_SC_CLK_TCK)) *
                       std::max(1u, std::thread::hardware_concurrency());
  ProcessorUse use;
  if (ticks > 0.0) {
    const auto others = (now.busy - last_.busy) - (now.own - last_.own);
    use.stolen = static_cast<double>(now.stolen - last_.stolen) / ticks;
    use.foreign = static_cast<double>(std::max<std::int64_t>(others, 0)) / ticks;
  }
  last_ = now;
  looked_ = looked;
  return use;
}

Bytes peak_resident_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) != 0) continue;
    std::istringstream fields(line.substr(6));
    Bytes kibibytes = 0;
    if (fields >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace tandem::tools
