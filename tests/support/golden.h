#pragma once
// Golden files: text that a person has looked at once and that a test holds from then on.
//
//   expect_golden("1f1b-4x8.picture", picture(program, timeline));
//
// compares with tests/golden/1f1b-4x8.picture. With UPDATE=1 in the environment the file is
// rewritten instead, and its diff is what a reviewer reads.

#include <string>
#include <string_view>

namespace tandem::testing {

/// Fails the current test, showing the first line that differs, unless `text` is what
/// tests/golden/`name` holds.
void expect_golden(std::string_view name, const std::string& text);

}  // namespace tandem::testing
