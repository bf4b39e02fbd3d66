#include "executor/cuda/nccl.h"

#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"

namespace tandem::cuda {
namespace {

template <class Function>
void find(void* library, const std::string& path, const char* name, Function& function) {
  void* const address = dlsym(library, name);
  if (address == nullptr) throw AbsentError(fmt::format("{} has no {}()", path, name));
  function = reinterpret_cast<Function>(address);
}

Nccl find_all(void* library, const std::string& path) {
  Nccl found;
  find(library, path, "ncclGetVersion", found.version);
  find(library, path, "ncclGetErrorString", found.error_string);
  find(library, path, "ncclGetLastError", found.last_error);
  find(library, path, "ncclGetUniqueId", found.make_id);
  find(library, path, "ncclCommInitRankConfig", found.init);
  find(library, path, "ncclCommGetAsyncError", found.async_error);
  find(library, path, "ncclCommFinalize", found.finalize);
  find(library, path, "ncclCommDestroy", found.destroy);
  find(library, path, "ncclCommAbort", found.abort);
  find(library, path, "ncclGroupStart", found.group_start);
  find(library, path, "ncclGroupEnd", found.group_end);
  find(library, path, "ncclSend", found.send);
  find(library, path, "ncclRecv", found.receive);
  find(library, path, "ncclAllReduce", found.all_reduce);
  return found;
}

int number_of(const Nccl& library) {
  int number = 0;
  library.version(&number);
  return number;
}

std::string print_version(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

Nccl load_nccl(std::span<const std::string> libraries) {
  for (const std::string& path : libraries) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const Nccl found = find_all(library, path);
    // It does not know the configuration of a later one.
    if (number_of(found) < NCCL_VERSION_CODE) {
      throw AbsentError(fmt::format("{} is NCCL {}, and this build is of {}", path,
                                    version_of(found), print_version(NCCL_VERSION_CODE)));
    }
    return found;
  }
  throw AbsentError(fmt::format("NCCL can't be loaded: no {}", fmt::join(libraries, ", no ")));
}

std::vector<std::string> nccl_libraries() {
  const std::string name = fmt::format("libnccl.so.{}", NCCL_MAJOR);
  std::vector<std::string> libraries{name};
  const auto add = [&](const std::string& root) {
    for (const char* folder : {"lib64", "lib"})
      libraries.push_back(fmt::format("{}/{}/{}", root, folder, name));
  };
  for (const char* variable : {"NCCL_HOME", "CUDA_HOME", "CUDA_PATH"}) {
    const char* const root = std::getenv(variable);
    if (root != nullptr) add(root);
  }
  add("/usr/local/cuda");
  return libraries;
}

const Nccl& nccl() {
  static const Nccl loaded = load_nccl(nccl_libraries());
  return loaded;
}

std::string version_of(const Nccl& library) { return print_version(number_of(library)); }

}  // namespace tandem::cuda
