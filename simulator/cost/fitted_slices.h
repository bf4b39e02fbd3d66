#pragma once
// Times of slices that nobody measured, by a model fitted to those that a profile has: the bilinear
// one of TeraPipe (arXiv 2102.07988).

#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/model/slice_lengths.h"
#include "core/schedule/slicing.h"
#include "simulator/cost/slice_programme.h"

namespace tandem {

/// Whether the profile measured this part of sequences.
bool is_measured(const Profile& profile, SequencePart part);

/// What layers take on a part of sequences: as measured, where it was. Else, of l tokens behind k
/// others, a + b·l + c·k + d·l·(2k + l), for each layer kind, microbatch size and time by itself:
/// the four of least relative squares over the measured slices and the whole sequence of which none
/// is negative, so that more tokens never take less. TeraPipe's has a table where d·l² stands.
/// Throws InputError where the profile has no slices.
std::vector<LayerCost> layers_on_slice(const Profile& profile, SequencePart part);

/// The profile with the layers of a whole sequence cut so: sums over the slices.
Profile on_slices(const Profile& profile, const std::vector<SequencePart>& parts);

/// For the programme below: what one of `stages` equal stages takes for forward and backward of a
/// part of each sequence of a microbatch, and, of several stages, for the transfers of both. Layers
/// as measured, where they were, of whole sequences too; else by the fit. Throws InputError as
/// layers_on_slice() does, and when asked where the profile has no transfers. `profile` outlives
/// it.
SliceTime measured_slice_time(const Profile& profile, std::int32_t microbatch_size,
                              std::int64_t stages);

/// The slices of the profile's model with which TeraPipe's order would be done soonest, by those
/// times: of so many microbatches of this size. One slice: whole sequences are the fastest. Throws
/// InputError as measured_slice_time() does.
Slicing slicing_by_time(const Profile& profile, std::int32_t microbatch_size, std::int64_t stages,
                        std::int64_t microbatches);

}  // namespace tandem
