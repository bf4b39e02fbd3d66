#pragma once
// Whether this is built with a sanitizer. It runs all of the code several times slower and looks
// for another kind of fault: what is exhaustive without one may then be a sample.

namespace tandem::testing {

// clang answers a question that g++ does not understand, which defines macros instead.
#if defined(__clang__)
inline constexpr bool kAddressesAreChecked = __has_feature(address_sanitizer) == 1;
inline constexpr bool kRacesAreFound = __has_feature(thread_sanitizer) == 1;
#else
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressesAreChecked = true;
#else
inline constexpr bool kAddressesAreChecked = false;
#endif
#if defined(__SANITIZE_THREAD__)
/// Faults that make threads race in earnest are said to.
inline constexpr bool kRacesAreFound = true;
#else
inline constexpr bool kRacesAreFound = false;
#endif
#endif

inline constexpr bool kSanitized = kAddressesAreChecked || kRacesAreFound;

}  // namespace tandem::testing
