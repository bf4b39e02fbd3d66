#pragma once
// Where the sources are that the tests were built from.

#include <filesystem>

namespace tandem::testing {

/// The root of the checkout, absolute.
std::filesystem::path source_folder();

}  // namespace tandem::testing
