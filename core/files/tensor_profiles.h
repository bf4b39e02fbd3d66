#pragma once
// profile.json with layers measured at several tensor degrees (FORMATS.md, "profile.json"). The
// profile that plans are made from is that of degree 1 (core/files/read.h).

#include <string>

#include "core/model/tensor_degrees.h"

namespace tandem {

/// Of any transformer, also of one that is priced and not trained; at least one degree.
TensorProfiles read_tensor_profiles(const std::string& path);
/// Throws InputError with every diagnostic found; `file` is for messages.
TensorProfiles parse_tensor_profiles(const std::string& file, std::string text);

}  // namespace tandem
