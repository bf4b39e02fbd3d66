#pragma once
// Frame: the header before what a channel carries, and its checksum.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem {

/// In the byte order of the machine: ranks are of one kind.
struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x4D444E54;  // "TNDM"
  std::uint32_t magic = kMagic;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;  // of the channel's messages in this direction
  std::uint64_t bytes = 0;     // that follow
  std::int64_t left_ns = 0;    // when the sender gave it, by its clock
  std::uint64_t checksum = 0;  // XXH3 of what follows, and of this header with 0 here
};
static_assert(sizeof(FrameHeader) == 40);

/// Of what follows a header, which comes in pieces.
class FrameChecksum {
 public:
  FrameChecksum();
  ~FrameChecksum();
  FrameChecksum(const FrameChecksum&) = delete;
  FrameChecksum& operator=(const FrameChecksum&) = delete;

  void begin();
  void add(std::span<const std::byte> piece);
  std::uint64_t end(FrameHeader header);

 private:
  void* state_;
};

}  // namespace tandem
