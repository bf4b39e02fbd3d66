#pragma once
// The generators, one file each; the registry that lists them is all.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace tandem {

/// `group`: microbatches in flight at a time; 0: all.
Schedule make_gpipe(const ScheduleRequest& request, std::int32_t group);
/// `slope`: forwards by which each stage is further ahead than the next.
Schedule make_one_forward_one_backward(const ScheduleRequest& request, std::int32_t slope = 1);
std::optional<std::string> reject_bpipe(const ScheduleRequest& request);
Schedule make_bpipe(const ScheduleRequest& request);
std::optional<std::string> reject_interleaved(const ScheduleRequest& request);
/// `splits`: backwards, in two halves.
Schedule make_interleaved(const ScheduleRequest& request, bool splits);
Schedule make_looped_bfs(const ScheduleRequest& request);

std::optional<std::string> reject_sliced_interleaved(const ScheduleRequest& request);

Schedule make_terapipe(const ScheduleRequest& request);

/// On device d the weight gradients follow `slope` × d microbatches behind those of the input, and
/// forwards are `slope` × (p − 1 − d) ahead of them.
Schedule make_zero_bubble(const ScheduleRequest& request, std::int32_t slope);
/// `cap`: of the activations of a device.
Schedule make_zero_bubble_auto(const ScheduleRequest& request, double cap);
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

Schedule make_two_stage_gpipe(const ScheduleRequest& request);
/// m = `rounds` times the devices, as the variants of 1F1B are defined.
std::optional<std::string> reject_two_stage_1f1b(std::string_view name, std::int32_t rounds,
                                                 const ScheduleRequest& request);
/// `slope`: forwards by which each stage is further ahead than the next.
Schedule make_two_stage_1f1b(const ScheduleRequest& request, std::int32_t slope);

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

/// 1F1B that never drains, and whose ops read what is newest.
Schedule make_latest(const ScheduleRequest& request);
/// The same, whose backwards read corrected weights, or whose passes read predicted ones.
Schedule make_pipemare(const ScheduleRequest& request);
Schedule make_spectrain(const ScheduleRequest& request);
Schedule make_spectrain_v2(const ScheduleRequest& request);
Schedule make_pipeoptim(const ScheduleRequest& request);
Schedule make_xpipe(const ScheduleRequest& request);

std::optional<std::string> reject_timeprest(std::string_view name, const ScheduleRequest& request);
Schedule make_timeprest(const ScheduleRequest& request);
/// The same, whose backwards read a mix of old and new weights.
Schedule make_timeprest_i(const ScheduleRequest& request);

std::optional<std::string> reject_double_buffered(const ScheduleRequest& request);
Schedule make_double_buffered(const ScheduleRequest& request);

/// Their rows of the registry.
std::vector<ScheduleTraits> automatic_rows();

}  // namespace tandem
