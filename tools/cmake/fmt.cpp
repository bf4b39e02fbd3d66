// The functions of fmt's shared library, as an archive: relocatable.cmake.

#define FMT_HEADER_ONLY
#include <fmt/format.h>

template fmt::detail::dragonbox::decimal_fp<float> fmt::detail::dragonbox::to_decimal(
    float) noexcept;
template fmt::detail::dragonbox::decimal_fp<double> fmt::detail::dragonbox::to_decimal(
    double) noexcept;
template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl(
    fmt::detail::locale_ref);
template char fmt::detail::decimal_point_impl(fmt::detail::locale_ref);
// fmt/chrono.h asks for it.
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
