#pragma once
// The generators, one file each; the registry that lists them is all.cpp.

#include <optional>
#include <string>
#include <vector>

#include "core/schedule.h"

namespace tandem {

Schedule make_model_parallel(const ScheduleRequest& request);
Schedule make_gpipe(const ScheduleRequest& request);
Schedule make_one_forward_one_backward(const ScheduleRequest& request);

std::optional<std::string> reject_double_buffered(const ScheduleRequest& request);
Schedule make_double_buffered(const ScheduleRequest& request);

std::optional<std::string> reject_replicated_probe(const ScheduleRequest& request);
Schedule make_replicated_probe(const ScheduleRequest& request);
Schedule make_v_probe(const ScheduleRequest& request);
std::optional<std::string> reject_bidirectional_probe(const ScheduleRequest& request);
Schedule make_bidirectional_probe(const ScheduleRequest& request);

}  // namespace tandem
