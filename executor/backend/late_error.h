#pragma once
// LateError: what a device was given has failed while the host was elsewhere.

#include "core/base/error.h"

namespace tandem {

/// A failure of something that runs by itself, such as a kernel: whatever call is made next reports
/// it, and need not be what went wrong. Whoever knows what the device was given says so besides.
class LateError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

}  // namespace tandem
