#pragma once
// TcpLane: one channel between two ranks over a TCP connection of its own. Frames carry sequence
// numbers and checksums; a connection that breaks is a failure, never made again.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "executor/backend/notice.h"
#include "executor/ranks/fault.h"
#include "executor/ranks/frame.h"
#include "executor/ranks/message_engine.h"

namespace tandem {

/// Sends and receives by whichever thread asks, as far as that does not wait, and by the thread of
/// the socket's context from there on. Outlives what that thread runs for it.
class TcpLane {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Setup {
    std::uint32_t channel = 0;
    std::string name;  // "send activation 0→1, with rank 1", for messages
    // Either may be called more than once, by any thread:
    Notice on_failure = {};           // what arrived is wrong
    Notice on_end = {};               // the connection has ended, as it does with the other rank
    FaultInjector* faults = nullptr;  // null: there are none
  };

  TcpLane(Socket socket, Setup setup);

  void send(std::span<const std::byte> bytes, MessageEngine::Sent sent);
  void receive(std::span<std::byte> into, MessageEngine::Received received);
  /// With `rank` at the other end.
  ChannelCount count(std::int32_t rank);
  /// Drops what is under way. No call begins after it; one that has begun may go on.
  void close();

 private:
  struct Outgoing {
    FrameHeader header;
    std::span<const std::byte> bytes;
    MessageEngine::Sent sent;
    std::size_t written = 0;  // of header and bytes
  };
  struct Incoming {
    std::span<std::byte> into;
    MessageEngine::Received received;
  };
  using Calls = std::vector<std::function<void()>>;

  // REQUIRES, of all of these: the mutex is held.
  /// Writes as much as can be written now.
  void write(Calls& ended);
  void read(Calls& ended);
  /// Bytes read; 0: none are there now.
  std::size_t read_some(std::span<std::byte> into);
  void begin_frame();
  void end_frame(Calls& ended);
  void wait_for(Socket::wait_type what);
  void fail(const std::string& why) { shut(setup_.on_failure, why); }
  void shut(const Notice& notice, const std::string& why);

  const Setup setup_;
  std::mutex mutex_;
  Socket socket_;
  bool closed_ = false, waits_to_write_ = false, waits_to_read_ = false;
  std::deque<Outgoing> outgoing_;
  std::deque<Incoming> incoming_;
  std::uint64_t sent_ = 0, received_ = 0;  // frames
  FrameHeader arriving_;
  std::size_t arrived_ = 0;  // bytes of the frame that is being read, header included
  FrameChecksum out_sum_, in_sum_;
};

}  // namespace tandem
