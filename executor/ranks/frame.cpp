#include "executor/ranks/frame.h"

#include <new>

#include <xxhash.h>

namespace tandem {

namespace {
XXH3_state_t* of(void* state) { return static_cast<XXH3_state_t*>(state); }
}  // namespace

FrameChecksum::FrameChecksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
}
FrameChecksum::~FrameChecksum() { XXH3_freeState(of(state_)); }

void FrameChecksum::begin() { XXH3_64bits_reset(of(state_)); }
void FrameChecksum::add(std::span<const std::byte> piece) {
  XXH3_64bits_update(of(state_), piece.data(), piece.size());
}
std::uint64_t FrameChecksum::end(FrameHeader header) {
  header.checksum = 0;
  XXH3_64bits_update(of(state_), &header, sizeof header);
  return XXH3_64bits_digest(of(state_));
}

}  // namespace tandem
