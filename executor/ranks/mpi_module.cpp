#include "executor/ranks/mpi_module.h"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>

namespace tandem {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libtandem_mpi.so";

/// Beside the program in a folder of builds; where installations have libraries.
fs::path module_path() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path installed = folder / TANDEM_MODULE_FOLDER / kFile;
  return fs::exists(installed, ignored) ? installed : folder / kFile;
}

FoundMpi load() {
  const fs::path path = module_path();
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    return {.why_absent = "this build has no code for it (Debian: libopenmpi-dev)"};
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {.why_absent = dlerror()};
  using Get = MpiModule*();
  auto* const get = reinterpret_cast<Get*>(dlsym(handle, "tandem_mpi_module"));
  if (get == nullptr) return {.why_absent = fmt::format("{} is none of tandem's", path.string())};
  return {.module = get()};
}

}  // namespace

const FoundMpi& find_mpi() {
  static const FoundMpi found = load();
  return found;
}

}  // namespace tandem
