#pragma once
// Unicode's normalization form C, which Qwen's tokenizers begin with.

#include <string>
#include <string_view>

namespace tandem {

/// `text` in form C: itself where that changes nothing, else what `storage` then holds. Throws
/// InputError where memory is short. REQUIRES: valid UTF-8.
std::string_view to_nfc(std::string_view text, std::string& storage);

/// The version of utf8proc, such as "2.8.0".
std::string_view nfc_library_version();

}  // namespace tandem
