#include "executor/ranks/listener.h"

#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kLongestHandshake = std::chrono::seconds(5);
constexpr auto kLongestSilence = std::chrono::seconds(3);
constexpr auto kBetweenTries = std::chrono::milliseconds(50);
constexpr std::size_t kMostHandshakes = 256;

}  // namespace

/// While it lives, the socket is closed when the time has come.
class ConnectionDeadline {
 public:
  ConnectionDeadline(tcp::socket& socket, std::chrono::steady_clock::time_point when)
      : timer_(socket.get_executor(), when) {
    timer_.async_wait([&socket](const boost::system::error_code& error) {
      boost::system::error_code ignored;
      if (!error) socket.close(ignored);
    });
  }

 private:
  asio::steady_timer timer_;
};

Listener::Listener(asio::io_context& context, const tcp::endpoint& place, std::string secret,
                   Taken taken)
    : acceptor_(context), secret_(std::move(secret)), taken_(std::move(taken)) {
  boost::system::error_code error;
  acceptor_.open(place.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(place, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    throw DeviceError(fmt::format("can't listen on {} port {}: {}", place.address().to_string(),
                                  place.port(), error.message()));
  }
  asio::co_spawn(context, accept(), asio::detached);
}

void Listener::close() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
}

asio::awaitable<void> Listener::accept() {
  while (acceptor_.is_open()) {
    boost::system::error_code error;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // such as too many open files: it may pass
      asio::steady_timer pause(acceptor_.get_executor(), kBetweenTries);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    if (open_ >= kMostHandshakes) continue;
    asio::co_spawn(acceptor_.get_executor(), take(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> Listener::take(tcp::socket socket) {
  ++open_;
  try {
    ConnectionPurpose purpose;
    {
      const ConnectionDeadline deadline(socket,
                                        std::chrono::steady_clock::now() + kLongestHandshake);
      purpose = co_await receive_introduction(socket, secret_);
    }
    taken_(purpose, std::move(socket));
  } catch (const std::exception&) {  // a stranger
  }
  --open_;
}

asio::awaitable<Connected> connect_to(std::string host, std::uint16_t port, std::string secret,
                                      ConnectionPurpose purpose,
                                      std::chrono::steady_clock::time_point deadline) {
  const auto executor = co_await asio::this_coro::executor;
  std::string why;
  bool silent = false;
  while (!silent && std::chrono::steady_clock::now() < deadline) {
    const auto connected = std::make_shared<tcp::socket>(executor);
    tcp::socket& socket = *connected;
    bool waits = false;
    const auto begin = std::chrono::steady_clock::now();
    try {
      const ConnectionDeadline limit(socket, std::min(deadline, begin + kLongestSilence));
      tcp::resolver resolver(executor);
      const auto places =
          co_await resolver.async_resolve(host, std::to_string(port), asio::use_awaitable);
      co_await asio::async_connect(socket, places, asio::use_awaitable);
      waits = true;
      co_await introduce(socket, secret, purpose);
    } catch (const std::exception& error) {
      // Who takes a connection and says nothing is there, and stands still.
      silent = waits && std::chrono::steady_clock::now() - begin >= kLongestSilence;
      why = silent ? "it takes connections and does not answer" : error.what();
      socket.close();
    }
    if (socket.is_open()) co_return Connected{connected, {}};
    asio::steady_timer pause(executor, kBetweenTries);
    co_await pause.async_wait(asio::use_awaitable);
  }
  co_return Connected{nullptr, why};
}

}  // namespace tandem
