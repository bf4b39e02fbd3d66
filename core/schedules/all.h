#pragma once
// The generators, one file each; the registry that lists them is all.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace tandem {

Schedule make_model_parallel(const ScheduleRequest& request);
Schedule make_gpipe(const ScheduleRequest& request);
Schedule make_data_parallel(const ScheduleRequest& request);
Schedule make_one_forward_one_backward(const ScheduleRequest& request);
Schedule make_eager(const ScheduleRequest& request);
std::optional<std::string> reject_bpipe(const ScheduleRequest& request);
Schedule make_bpipe(const ScheduleRequest& request);

std::optional<std::string> reject_interleaved(const ScheduleRequest& request);
Schedule make_interleaved(const ScheduleRequest& request);
Schedule make_looped_bfs(const ScheduleRequest& request);
Schedule make_interleaved_zero_bubble(const ScheduleRequest& request);

Schedule make_zero_bubble_h1(const ScheduleRequest& request);
Schedule make_zero_bubble_h2(const ScheduleRequest& request);
Schedule make_zero_bubble_1p(const ScheduleRequest& request);
Schedule make_zero_bubble_2p(const ScheduleRequest& request);
Schedule make_zero_bubble_auto(const ScheduleRequest& request);
Schedule make_zero_bubble_v(const ScheduleRequest& request);
Schedule make_zero_bubble_v_auto(const ScheduleRequest& request);

Schedule make_one_forward_one_backward_v(const ScheduleRequest& request);
Schedule make_v_min(const ScheduleRequest& request);
Schedule make_v_half(const ScheduleRequest& request);
Schedule make_v_zero_bubble(const ScheduleRequest& request);
std::optional<std::string> reject_v_adaptive(const ScheduleRequest& request);
std::int64_t effort_of_v_adaptive(const ScheduleRequest& request);
Schedule make_v_adaptive(const ScheduleRequest& request);

/// core/schedules/search/order_search.h
std::int64_t effort_of_search(const ScheduleRequest& request);
Schedule make_search(const ScheduleRequest& request);

Schedule make_two_stage_naive(const ScheduleRequest& request);
Schedule make_two_stage_gpipe(const ScheduleRequest& request);
std::optional<std::string> reject_two_stage_1f1b_1(const ScheduleRequest& request);
Schedule make_two_stage_1f1b_1(const ScheduleRequest& request);
std::optional<std::string> reject_two_stage_1f1b_2(const ScheduleRequest& request);
Schedule make_two_stage_1f1b_2(const ScheduleRequest& request);

std::optional<std::string> reject_hanayo(const ScheduleRequest& request);
Schedule make_hanayo(const ScheduleRequest& request);

std::optional<std::string> reject_chimera(const ScheduleRequest& request);
Schedule make_chimera(const ScheduleRequest& request);

std::optional<std::string> reject_dual_pipe(const ScheduleRequest& request);
Schedule make_dual_pipe(const ScheduleRequest& request);
std::optional<std::string> reject_dual_pipe_v(const ScheduleRequest& request);
Schedule make_dual_pipe_v(const ScheduleRequest& request);

std::optional<std::string> reject_stashed(const ScheduleRequest& request);
Schedule make_stashed(const ScheduleRequest& request);

std::optional<std::string> reject_double_buffered(const ScheduleRequest& request);
Schedule make_double_buffered(const ScheduleRequest& request);

/// Their rows of the registry.
std::vector<ScheduleTraits> automatic_rows();

}  // namespace tandem
