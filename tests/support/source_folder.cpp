#include "tests/support/source_folder.h"

namespace tandem::testing {

std::filesystem::path source_folder() { return TANDEM_SOURCE_DIR; }

}  // namespace tandem::testing
