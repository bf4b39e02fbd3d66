#pragma once
// Arena: one block of memory that buffers are laid out in before it is there.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"
#include "core/base/units.h"

namespace tandem {

/// Places buffers one after another, each at a multiple of kAlignment; then it is put at memory of
/// as many bytes. Outlives its buffers.
class Arena {
 public:
  static constexpr Bytes kAlignment = 256;  // as cudaMalloc's own

  /// REQUIRES of elements(): the arena has memory (checked).
  template <class T>
  class Buffer {
   public:
    Buffer() = default;
    std::span<T> elements() const {
      if (elements_ == 0) return {};
      TANDEM_CHECK(arena_->memory_ != nullptr, offset_, elements_);
      return {reinterpret_cast<T*>(arena_->memory_ + offset_), elements_};
    }
    Bytes bytes() const { return static_cast<Bytes>(elements_ * sizeof(T)); }

   private:
    friend class Arena;
    Buffer(const Arena& arena, Bytes offset, std::int64_t elements)
        : arena_(&arena), offset_(offset), elements_(static_cast<std::size_t>(elements)) {}
    const Arena* arena_ = nullptr;
    Bytes offset_ = 0;
    std::size_t elements_ = 0;
  };

  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// REQUIRES: it has no memory yet (checked).
  template <class T>
  Buffer<T> place(std::int64_t elements) {
    TANDEM_CHECK(memory_ == nullptr && elements >= 0, elements);
    const Buffer<T> buffer(*this, size_, elements);
    size_ += (buffer.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    return buffer;
  }
  Bytes size() const { return size_; }
  /// REQUIRES: `memory` is of size() bytes, aligned.
  void put_at(std::byte* memory) { memory_ = memory; }

 private:
  Bytes size_ = 0;
  std::byte* memory_ = nullptr;
};

}  // namespace tandem
