#pragma once
// What a profile says of transfers.

#include "core/model/model.h"

namespace tandem {

/// Time for `bytes`: measured, or on the line through the two sizes nearest to it. Throws
/// InputError where the profile has no transfers.
Duration transfer_time(const Profile& profile, Bytes bytes);

}  // namespace tandem
