#pragma once
// tandem import --from nccl-tests: constants of all-reduces from logs, and how well they fit.

#include <string>
#include <vector>

namespace tandem::tools {

/// Fits them, writes `output` where it is not empty, and reports on stdout, or as a JSON object.
/// Throws InputError.
void import_collectives(const std::vector<std::string>& logs, const std::string& output, bool json);

}  // namespace tandem::tools
