#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tandem::detail {

void check_failed(const char* expression, const char* file, int line, const std::string& values) {
  fmt::print(stderr, "{}:{}: check failed: {}{}{}\n", file, line, expression,
             values.empty() ? "" : ", values:", values);
  std::abort();
}

}  // namespace tandem::detail
