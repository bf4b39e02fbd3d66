#pragma once
// Whole files, read and written: a written file is complete or isn't there.

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

/// The bytes of a file, pipe or device. Throws InputError where it can't be opened or read, or
/// holds more than `most` bytes.
std::string read_file(const std::string& path, std::size_t most);

/// Where `file` is, which the file at `path` names relative to its own folder.
std::string beside(const std::string& path, const std::string& file);

/// Replaces the file at once, as a Replacement does. Throws DeviceError with path and reason.
void write_file(const std::string& path, std::string_view content);

}  // namespace tandem
