#include "executor/ranks/control_link.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "core/base/error.h"

namespace tandem {

namespace asio = boost::asio;

namespace {
constexpr std::size_t kPart = 256 << 10;
constexpr std::size_t kMostUnderWay = 64 << 20;
constexpr std::uint64_t kLongestMessage = std::uint64_t{1} << 36;  // a stage's plane
}  // namespace

ControlLink::ControlLink(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {
  socket_.set_option(asio::ip::tcp::no_delay(true));
  hear();
}
ControlLink::~ControlLink() = default;

void ControlLink::start(Ears ears) {
  ears_ = std::move(ears);
  asio::co_spawn(
      socket_.get_executor(), [self = shared_from_this()] { return self->read(); }, asio::detached);
}

void ControlLink::send(MessageKind kind, std::string payload) {
  const std::lock_guard lock(mutex_);
  if (ended_ || mute_) return;
  Header header{.kind = kind, .bytes = payload.size()};
  urgent_.push_back({header, std::move(payload)});
  begin_writing();
}

void ControlLink::send_long(MessageKind kind, std::string payload) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return ended_ || mute_ || long_bytes_ < kMostUnderWay; });
  if (ended_ || mute_) return;
  long_bytes_ += payload.size();
  for (std::size_t first = 0; first == 0 || first < payload.size(); first += kPart) {
    std::string part = payload.substr(first, kPart);
    Header header{.kind = kind,
                  .is_part = first + kPart < payload.size() ? 1u : 0u,
                  .is_long = 1,
                  .bytes = part.size()};
    long_.push_back({header, std::move(part)});
  }
  begin_writing();
}

void ControlLink::shut() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    boost::system::error_code ignored;
    self->socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  });
}

void ControlLink::close() {
  const std::lock_guard lock(mutex_);
  if (ended_ || mute_ || closes_) return;
  closes_ = true;
  long_.push_back({Header{.kind = MessageKind::over}, {}});  // behind all that was given
  begin_writing();
}

void ControlLink::begin_writing() {
  if (std::exchange(writes_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    asio::co_spawn(self->socket_.get_executor(), [self] { return self->write(); }, asio::detached);
  });
}

asio::awaitable<void> ControlLink::write() {
  const auto self = shared_from_this();
  try {
    while (true) {
      Outgoing next;
      {
        const std::lock_guard lock(mutex_);
        std::deque<Outgoing>& from = urgent_.empty() ? long_ : urgent_;
        if (from.empty()) {
          writes_ = false;
          co_return;
        }
        next = std::move(from.front());
        from.pop_front();
      }
      const std::array<asio::const_buffer, 2> buffers{
          asio::buffer(&next.header, sizeof next.header), asio::buffer(next.payload)};
      co_await asio::async_write(socket_, buffers, asio::use_awaitable);
      if (next.header.kind == MessageKind::over) {
        boost::system::error_code ignored;
        socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      }
      if (next.header.is_long == 0) continue;
      const std::lock_guard lock(mutex_);
      long_bytes_ -= next.payload.size();
      room_.notify_all();
    }
  } catch (const boost::system::system_error&) {
    // Whoever closed it may have said why: what has arrived is read to its end, and that is told.
    const std::lock_guard lock(mutex_);
    mute_ = true;
    room_.notify_all();
  }
}

asio::awaitable<void> ControlLink::read() {
  const auto self = shared_from_this();
  std::string why;
  try {
    while (true) {
      Header header;
      std::size_t arrived = 0;
      const auto into = asio::buffer(&header, sizeof header);
      while (arrived < sizeof header) {
        arrived += co_await socket_.async_read_some(into + arrived, asio::use_awaitable);
        hear();
      }
      if (header.bytes > kLongestMessage) throw DeviceError("what arrives is no message");
      std::string payload(header.bytes, '\0');
      for (arrived = 0; arrived < payload.size();) {
        arrived +=
            co_await socket_.async_read_some(asio::buffer(payload) + arrived, asio::use_awaitable);
        hear();
      }
      if (header.kind == MessageKind::over) {
        const std::lock_guard lock(mutex_);
        closes_ = true;
      }
      if (header.is_long != 0) {
        parts_ += payload;
        if (header.is_part != 0) continue;
        payload = std::exchange(parts_, {});
      }
      ears_.on_message(header.kind, std::move(payload));
    }
  } catch (const boost::system::system_error& error) {
    why = error.code() == asio::error::eof ? "has closed its connection"
                                           : "has lost its connection: " + error.code().message();
  } catch (const std::exception& error) {
    why = std::string("has sent what can't be read: ") + error.what();
  }
  end(why);
}

void ControlLink::end(const std::string& why) {
  bool tells = false;
  {
    const std::lock_guard lock(mutex_);
    tells = !closes_ && !ended_;
    ended_ = true;
    room_.notify_all();
  }
  boost::system::error_code ignored;
  socket_.close(ignored);
  if (tells) ears_.on_end(why);
}

}  // namespace tandem
