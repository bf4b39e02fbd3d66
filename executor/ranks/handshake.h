#pragma once
// Handshake: how the two ends of a connection between ranks prove to each other that they know the
// run's secret, without sending it. What strangers send is bounded in size and time.

#include <cstdint>
#include <string>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace tandem {

/// What a connection is for.
struct ConnectionPurpose {
  enum class Kind : std::uint32_t { control, channel };
  Kind kind = Kind::control;
  std::int32_t rank = 0;      // who connects
  std::int32_t to = 0;        // to whom
  std::uint64_t channel = 0;  // of data
};

/// Of the side that connects. Throws DeviceError where the other side does not know the secret, and
/// boost::system::system_error where the connection ends.
boost::asio::awaitable<void> introduce(boost::asio::ip::tcp::socket& socket,
                                       const std::string& secret, ConnectionPurpose purpose);
/// Of the side that accepts: as introduce().
boost::asio::awaitable<ConnectionPurpose> receive_introduction(boost::asio::ip::tcp::socket& socket,
                                                               const std::string& secret);

}  // namespace tandem
