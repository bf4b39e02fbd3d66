#include "core/text/mapped_file.h"

#include <cerrno>
#include <cstddef>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/text/descriptor.h"

namespace tandem {
namespace {

[[noreturn]] void refuse_mapping(const std::string& path, const std::string& reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  const Descriptor file(open_file(path, O_RDONLY));
  struct stat status{};
  if (!file.valid() || ::fstat(file.value(), &status) != 0) refuse_mapping(path, reason_of(errno));
  if (S_ISDIR(status.st_mode)) refuse_mapping(path, reason_of(EISDIR));
  if (!S_ISREG(status.st_mode)) refuse_mapping(path, "not a regular file: it can't be mapped");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value(), 0);
  if (memory == MAP_FAILED) refuse_mapping(path, reason_of(errno));
  owner_ = std::shared_ptr<const void>(
      memory, [size](const void* mapped) { ::munmap(const_cast<void*>(mapped), size); });
  bytes_ = {static_cast<const char*>(memory), size};
}

}  // namespace tandem
