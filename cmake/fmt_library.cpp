// SPDX-License-Identifier: Apache-2.0
// fmt's implementation, compiled once: as a header it would be more than half of the compile time
// of a source file. Linked statically and hidden. For fmt 9; see Dependencies.cmake.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

// Templates that format.h declares extern or does not define.
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl<char>(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal<double>(double) noexcept
    -> dragonbox::decimal_fp<double>;
template FMT_API void buffer<char>::append<char>(const char*, const char*);
template FMT_API void vformat_to<char>(buffer<char>&, string_view,
                                       basic_format_args<buffer_context<char>>, locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
