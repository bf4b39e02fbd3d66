#pragma once
// MessageEngine: what carries bytes between the ranks of a run. Channels between two ranks are
// independent of one another; the n-th that one sends on a channel is the n-th that the other
// receives.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tandem {

/// What has passed on a channel between the rank that counts and another.
struct ChannelCount {
  std::int32_t rank = 0;                              // the other
  bool waits = false;                                 // for something to arrive
  std::uint64_t channel = 0, given = 0, arrived = 0;  // messages
};

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
  /// Of each channel; none where the engine does not count. From any thread.
  virtual std::vector<ChannelCount> counts() { return {}; }
  /// Drops what is under way. When it returns, nothing is called any more.
  virtual void abort() = 0;
};

}  // namespace tandem
