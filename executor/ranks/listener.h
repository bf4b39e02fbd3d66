#pragma once
// Listener: takes connections of other ranks. A stranger, who does not know the run's secret, is
// turned away; one who says nothing is dropped after a while, and there are never many of them.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "executor/ranks/handshake.h"

namespace tandem {

class Listener {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Taken = std::function<void(ConnectionPurpose, Socket)>;  // on the context's thread

  /// Throws DeviceError where the place is in use or not this machine's. Port 0: a free one.
  Listener(boost::asio::io_context& context, const boost::asio::ip::tcp::endpoint& place,
           std::string secret, Taken taken);

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  /// On the context's thread.
  void close();

 private:
  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> take(Socket socket);

  boost::asio::ip::tcp::acceptor acceptor_;
  const std::string secret_;
  const Taken taken_;
  std::size_t open_ = 0;  // handshakes
};

/// A connection, or why there is none.
struct Connected {
  std::shared_ptr<boost::asio::ip::tcp::socket> socket;
  std::string why;
};
/// Connects and introduces itself, again and again until `deadline`, for the other side may come
/// later.
boost::asio::awaitable<Connected> connect_to(std::string host, std::uint16_t port,
                                             std::string secret, ConnectionPurpose purpose,
                                             std::chrono::steady_clock::time_point deadline);

}  // namespace tandem
