#include "tools/print/metrics_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem::tools {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr int kMostConnections = 16;
constexpr std::size_t kLargestRequest = 8 << 10;
constexpr auto kLongestConnection = std::chrono::seconds(5);

std::string http_answer(std::string_view status, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
      "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, body.size(), body);
}

std::string answer_to(std::string_view request, const std::string& page) {
  const std::string_view line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET ")) return http_answer("405 Method Not Allowed", "only GET\n");
  const std::string_view path = line.substr(4, line.find(' ', 4) - 4);
  if (path != "/metrics") return http_answer("404 Not Found", "see /metrics\n");
  return http_answer("200 OK", page);
}

}  // namespace

class MetricsServer::State {
 public:
  explicit State(std::uint16_t port) : acceptor_(context_) {
    const tcp::endpoint place(asio::ip::address_v4::loopback(), port);
    ErrorCode error;
    acceptor_.open(place.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(place, error);
    if (!error) acceptor_.listen(kMostConnections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error)
      throw DeviceError(
          fmt::format("metrics: can't listen on 127.0.0.1:{}: {}", port, error.message()));
    accept();
    thread_ = std::thread([this] { run(); });
  }

  ~State() {
    context_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

  void set(std::string page) {
    const std::lock_guard lock(mutex_);
    page_ = std::move(page);
  }

 private:
  struct Connection {
    Connection(tcp::socket from, int& counter)
        : socket(std::move(from)),
          deadline(socket.get_executor(), kLongestConnection),
          open(counter) {
      ++open;
    }
    ~Connection() { --open; }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    void end() {
      ErrorCode ignored;
      deadline.cancel(ignored);
      socket.close(ignored);
    }

    tcp::socket socket;
    asio::steady_timer deadline;
    std::array<char, 1024> piece{};
    std::string request, answer;
    int& open;
  };
  using Shared = std::shared_ptr<Connection>;

  void run() {
    // A connection without memory for it is dropped; training goes on.
    while (!context_.stopped()) {
      try {
        context_.run();
      } catch (const std::exception&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](const ErrorCode& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        // Such as too many open files: later there may be fewer.
        retry_.expires_after(std::chrono::milliseconds(100));
        retry_.async_wait([this](const ErrorCode&) { accept(); });
        return;
      }
      accept();
      if (open_ < kMostConnections) serve(std::make_shared<Connection>(std::move(socket), open_));
    });
  }

  void serve(const Shared& connection) {
    connection->deadline.async_wait([connection](const ErrorCode& error) {
      if (!error) connection->end();
    });
    read(connection);
  }

  void read(const Shared& connection) {
    connection->socket.async_read_some(
        asio::buffer(connection->piece),
        [this, connection](const ErrorCode& error, std::size_t bytes) {
          if (error) return connection->end();
          connection->request.append(connection->piece.data(), bytes);
          if (connection->request.find("\r\n\r\n") != std::string::npos) return answer(connection);
          if (connection->request.size() > kLargestRequest) return connection->end();
          read(connection);
        });
  }

  void answer(const Shared& connection) {
    {
      const std::lock_guard lock(mutex_);
      connection->answer = answer_to(connection->request, page_);
    }
    asio::async_write(connection->socket, asio::buffer(connection->answer),
                      [connection](const ErrorCode&, std::size_t) { connection->end(); });
  }

  std::mutex mutex_;
  std::string page_;
  int open_ = 0;  // outlives the context, which holds the connections
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_{context_};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

MetricsServer::MetricsServer(std::uint16_t port) : state_(std::make_unique<State>(port)) {}
MetricsServer::~MetricsServer() = default;

std::uint16_t MetricsServer::port() const { return state_->port(); }
void MetricsServer::set(std::string page) { state_->set(std::move(page)); }

}  // namespace tandem::tools
