#pragma once
// What a stream of a device is for: its kernels need memory to work with accordingly, and where
// several could run, those go first that other devices wait for.

#include <cstdint>

#include "core/program/program.h"

namespace tandem {

enum class StreamUse : std::uint8_t {
  copies,  // of what is sent; goes first, as sums do
  sums,    // of gradients, and of their squares
  computation,
};

constexpr StreamUse stream_use(LaneKind lane) {
  if (lane == LaneKind::compute) return StreamUse::computation;
  return lane == LaneKind::collective ? StreamUse::sums : StreamUse::copies;
}

}  // namespace tandem
