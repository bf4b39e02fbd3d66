#pragma once
// Whether this is built with a sanitizer. It runs all of the code several times slower and looks
// for another kind of fault: what is exhaustive without one may then be a sample.

namespace tandem::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Faults that make threads race in earnest are said to.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kRacesAreFound = true;
#else
inline constexpr bool kRacesAreFound = false;
#endif

}  // namespace tandem::testing
