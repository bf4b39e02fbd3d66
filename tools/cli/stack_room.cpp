#include "tools/cli/stack_room.h"

#include <csignal>
#include <cstddef>
#include <system_error>
#include <thread>

#include <pthread.h>
#include <sys/resource.h>

namespace tandem::tools {

namespace {

constexpr std::size_t kLeastStack = std::size_t{8} << 20;

/// Of threads that do not say; it is what `ulimit -s` said when the process began.
void enlarge_default_stack() {
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t size = 0;
  ::pthread_attr_getstacksize(&attributes, &size);
  if (size < kLeastStack && ::pthread_attr_setstacksize(&attributes, kLeastStack) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

bool is_small(const rlimit& stack) {
  return stack.rlim_cur != RLIM_INFINITY && stack.rlim_cur < kLeastStack;
}

}  // namespace

int with_stack_room(const std::function<int()>& command) {
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || !is_small(stack)) return command();
  enlarge_default_stack();
  int code = 0;
  // This thread only waits. A signal that it took would kill before the command hears of it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([&] {
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      code = command();
    }).join();
  } catch (const std::system_error&) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return command();  // no memory for a larger one: then on what there is
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return code;
}

}  // namespace tandem::tools
