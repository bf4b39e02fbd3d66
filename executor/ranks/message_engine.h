#pragma once
// MessageEngine: what carries bytes between the ranks of a run. Channels between two ranks are
// independent of one another; the n-th that one sends on a channel is the n-th that the other
// receives.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace tandem {

class MessageEngine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Called once, by a thread of the engine or by the one that asks. It must not wait.
  using Sent = std::function<void()>;
  /// `left`: when the sender gave it, by the sender's clock.
  using Received = std::function<void(Time left)>;

  MessageEngine() = default;
  virtual ~MessageEngine() = default;
  MessageEngine(const MessageEngine&) = delete;
  MessageEngine& operator=(const MessageEngine&) = delete;

  /// From any thread. Does not wait. The bytes are the engine's until the call.
  virtual void send(std::int32_t rank, std::size_t channel, std::span<const std::byte> bytes,
                    Sent sent) = 0;
  /// REQUIRES: as long as what is sent; else the engine fails.
  virtual void receive(std::int32_t rank, std::size_t channel, std::span<std::byte> into,
                       Received received) = 0;
  /// Drops what is under way. When it returns, nothing is called any more.
  virtual void abort() = 0;
};

}  // namespace tandem
