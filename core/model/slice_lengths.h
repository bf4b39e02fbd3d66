#pragma once
// How long the slices of a model's sequences are.

#include <cstdint>
#include <vector>

#include "core/model/model.h"
#include "core/schedule/slicing.h"

namespace tandem {

/// Tokens of a sequence, and how many stand before them: attention looks at these, too. The whole
/// one where there are none of its own.
struct SequencePart {
  std::int32_t tokens = 0, before = 0;
  bool is_whole() const { return tokens == 0; }
  friend bool operator==(const SequencePart&, const SequencePart&) = default;
};

/// Tokens of each slice, the first one's first; of one slice all. Equal ones are as equal as can
/// be, the longer ones first. By work: from the last back each takes as many operations as the
/// others, rounded down to a multiple of `multiple` tokens, and the first the rest (the authors'
/// code of Seq1F1B). Throws InputError where the sequence has not so many tokens, or other tokens
/// than were given, or where tokens attend to later ones. REQUIRES: not Slicing::Kind::by_time.
std::vector<std::int32_t> slice_lengths(const Slicing& slicing, const ModelSpec& model,
                                        std::int32_t multiple = 1);

/// The same with what stands before each; empty where sequences are whole. Throws likewise.
std::vector<SequencePart> sequence_parts(const Slicing& slicing, const ModelSpec& model);
/// Slices of these lengths.
std::vector<SequencePart> parts_of(const std::vector<std::int32_t>& lengths);

/// Bytes that cross a stage boundary for that part of a microbatch.
Bytes boundary_bytes(const ModelSpec& model, SequencePart part, std::int32_t microbatch_size,
                     Bytes element = 4);

}  // namespace tandem
