// Preloaded into a command (LD_PRELOAD): from request MEMORY_FAILS_FROM on it is given no memory.
// At the end it says on stderr how many requests there were.

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include <unistd.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the C library's own, behind those that are replaced
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

std::atomic<long> requests{0}, first_failure{std::numeric_limits<long>::max()};

bool fails() {
  if (requests++ < first_failure) return false;
  errno = ENOMEM;
  return true;
}

__attribute__((constructor)) void begin() {
  if (const char* from = std::getenv("MEMORY_FAILS_FROM")) first_failure = std::atol(from);
}

__attribute__((destructor)) void end() {
  ::dprintf(STDERR_FILENO, "requests: %ld\n", requests.load());
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept { return fails() ? nullptr : __libc_malloc(size); }

void* calloc(std::size_t count, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_calloc(count, size);
}

void* realloc(void* memory, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_realloc(memory, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  *memory = fails() ? nullptr : __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
// NOLINTEND(bugprone-reserved-identifier)
