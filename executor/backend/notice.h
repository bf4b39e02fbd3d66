#pragma once
// Notice: what is said to a user beside results; nothing below tools prints. LateError: what a
// device was given has failed while the host was elsewhere.

#include <functional>
#include <string>

#include "core/base/error.h"

namespace tandem {

/// Takes a line, from whatever thread. May be empty: nobody listens.
using Notice = std::function<void(const std::string&)>;

inline void tell(const Notice& notice, const std::string& line) {
  if (notice) notice(line);
}

/// A failure of something that runs by itself, such as a kernel: whatever call is made next reports
/// it, and need not be what went wrong. Whoever knows what the device was given says so besides.
class LateError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace tandem
