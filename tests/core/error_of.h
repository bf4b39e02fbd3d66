#pragma once
// The whole message of what a call throws.

#include <string>

#include "core/base/error.h"

namespace tandem::testing {

template <class Thrown = InputError, class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace tandem::testing
