#pragma once
// How a header says what passes of a stage read: "2:1:0:0", "0:0:1.5:0.25".

#include <string_view>

#include "core/notation/notation_words.h"
#include "core/schedule/schedule.h"

namespace tandem {

/// Of a stage: both horizons, the delay and what is kept (Reading), and
/// ":shared" where forwards share a prediction. Throws BadWord, diagnosed.
Reading read_reading(WordReader& in, std::string_view word);

/// Diagnoses readings that are too few, too many, or correct weights that are not the newest.
void check_readings(WordReader& in, const Schedule& schedule);

}  // namespace tandem
