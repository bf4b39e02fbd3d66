#pragma once
// ControlLink: a connection between two ranks that carries messages of their own, beside what the
// program sends: who is there, what is logged, who has failed. What is urgent overtakes what is
// long.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace tandem {

enum class MessageKind : std::uint32_t {
  ping,  // answered by pong, with the time there
  pong,
  hello,    // who connects
  awaited,  // who is not there yet
  welcome,  // all ranks are there
  refusal,
  heartbeat,  // what devices are at
  arrived,    // at a barrier
  go_on,
  loss,
  update,
  gathered,
  broadcast,
  failure,
  stop,
  wants,  // whether the state after a batch is to be kept
  answer,
  plane,
  stage_end,
  copy,        // a piece of a stage's copy
  copy_taken,  // all of one is where it was sent to
  over,  // the link ends, as it should
};

class ControlLink : public std::enable_shared_from_this<ControlLink> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Ears {
    std::function<void(MessageKind, std::string)> on_message;
    std::function<void(const std::string& why)> on_end;  // once, when it breaks
  };

  explicit ControlLink(boost::asio::ip::tcp::socket socket);
  ~ControlLink();

  /// Calls, from now on, on the socket's context. In a coroutine or before the context runs.
  void start(Ears ears);
  /// From any thread.
  void send(MessageKind kind, std::string payload);
  /// Behind all that is urgent; waits while too much is under way.
  void send_long(MessageKind kind, std::string payload);
  /// Ends it at once. From any thread.
  void shut();
  /// Ends it when what was given is sent, without on_end.
  void close();

  Time heard() const { return Time(Time::duration(heard_.load(std::memory_order_relaxed))); }
  void hear() {
    heard_.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                 std::memory_order_relaxed);
  }

 private:
  /// On the wire, before its bytes.
  struct Header {
    MessageKind kind{};
    std::uint32_t is_part = 0;  // of a long message, which goes on
    std::uint32_t is_long = 0;
    std::uint32_t reserved = 0;
    std::uint64_t bytes = 0;
  };
  struct Outgoing {
    Header header;
    std::string payload;
  };

  boost::asio::awaitable<void> read();
  boost::asio::awaitable<void> write();
  void begin_writing();
  void end(const std::string& why);

  boost::asio::ip::tcp::socket socket_;
  Ears ears_;
  std::string parts_;  // of the long message that arrives
  std::atomic<Time::rep> heard_{0};

  std::mutex mutex_;
  std::condition_variable room_;
  std::deque<Outgoing> urgent_, long_;
  std::size_t long_bytes_ = 0;
  bool writes_ = false, closes_ = false, ended_ = false;
  bool mute_ = false;  // the other side takes nothing more
};

}  // namespace tandem
