#include "executor/cuda/nccl.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem::cuda {
namespace {

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
  const Nccl found{.library = Library("NCCL", libraries)};
  // It does not know the configuration of a later one.
  if (number_of(found) < NCCL_VERSION_CODE) {
    throw AbsentError(fmt::format("{} is NCCL {}, and this build is of {}", found.library.path(),
                                  version_of(found), print_version(NCCL_VERSION_CODE)));
  }
  return found;
}

std::vector<std::string> nccl_libraries() {
  return library_places(fmt::format("libnccl.so.{}", NCCL_MAJOR), {"NCCL_HOME"});
}

const Nccl& nccl() {
  static const Nccl loaded = load_nccl(nccl_libraries());
  return loaded;
}

std::string version_of(const Nccl& library) { return print_version(number_of(library)); }

}  // namespace tandem::cuda
