#pragma once
// Runs a function in a process of its own: SimGrid has one engine a process, and no second.

#include <functional>

#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"

namespace tandem::benchmarks {

/// REQUIRES: T is plain data of less than a page.
template <class T>
T in_child(const std::function<T()>& run) {
  int ends[2];
  if (::pipe(ends) != 0) throw DeviceError("SimGrid: no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const T result = run();
    const bool written =
        ::write(ends[1], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  T result;
  const bool whole = ::read(ends[0], &result, sizeof result) == static_cast<ssize_t>(sizeof result);
  ::close(ends[0]);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !whole || status != 0)
    throw DeviceError("SimGrid: its run did not end");
  return result;
}

}  // namespace tandem::benchmarks
