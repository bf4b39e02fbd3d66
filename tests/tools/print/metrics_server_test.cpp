// The page for Prometheus, and clients that want to be in the way.

#include "tools/print/metrics_server.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/core/error_of.h"
#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

using Clock = std::chrono::steady_clock;
using tools::MetricsServer;

/// A connection to the server; what it answers is waited for at most three seconds.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval most{.tv_sec = 3, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  bool send(std::string_view text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  std::string answer() const {
    std::string all(1 << 16, '\0');
    std::size_t size = 0;
    while (size < all.size()) {
      const ssize_t more = ::recv(socket_, all.data() + size, all.size() - size, 0);
      if (more <= 0) break;
      size += static_cast<std::size_t>(more);
    }
    all.resize(size);
    return all;
  }

 private:
  int socket_;
  bool connected_ = false;
};

std::string get(const MetricsServer& server, const std::string& request) {
  const Client client(server.port());
  EXPECT_TRUE(client.send(request + "\r\nHost: x\r\n\r\n"));
  return client.answer();
}

TEST(MetricsServer, ServesThePageThatWasSetLast) {
  MetricsServer server(0);
  server.set("tandem_loss 1\n");
  const std::string answer = get(server, "GET /metrics HTTP/1.1");
  EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 14\r\n"));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\ntandem_loss 1\n"));
  server.set("tandem_loss 0.5\n");
  EXPECT_THAT(get(server, "GET /metrics HTTP/1.1"), HasSubstr("tandem_loss 0.5\n"));
  EXPECT_THAT(get(server, "GET / HTTP/1.1"), ::testing::StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(get(server, "POST /metrics HTTP/1.1"), ::testing::StartsWith("HTTP/1.1 405 "));
}

TEST(MetricsServer, NamesAPortInUse) {
  const MetricsServer server(0);
  EXPECT_EQ(
      error_of<DeviceError>([&] { MetricsServer(server.port()); }),
      fmt::format("metrics: can't listen on 127.0.0.1:{}: Address already in use", server.port()));
}

TEST(MetricsServer, IsNotStalledByClientsThatSaySomethingOrNothing) {
  MetricsServer server(0);
  server.set("tandem_loss 1\n");
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(std::make_unique<Client>(server.port()));
    silent.back()->send("GET /metr");
  }
  const auto start = Clock::now();
  for (int i = 0; i < 1000; ++i) server.set(std::string(1000, 'x') + "\ntandem_loss 2\n");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_THAT(get(server, "GET /metrics HTTP/1.1"), HasSubstr("tandem_loss 2\n"));
  {
    const Client endless(server.port());  // a request without an end
    for (int i = 0; i < 100 && endless.send(std::string(1 << 10, 'x')); ++i) {
    }
    EXPECT_EQ(endless.answer(), "") << "and is cut off";
  }
  EXPECT_THAT(get(server, "GET /metrics HTTP/1.1"), HasSubstr("tandem_loss 2\n"));
}

TEST(MetricsServer, ServesAgainWhenThoseWhoFilledItAreGone) {
  MetricsServer server(0);
  server.set("tandem_loss 1\n");
  std::vector<std::unique_ptr<Client>> many;
  for (int i = 0; i < 40; ++i) many.push_back(std::make_unique<Client>(server.port()));
  EXPECT_EQ(get(server, "GET /metrics HTTP/1.1"), "") << "sixteen are all that it serves";
  many.clear();
  std::string answer;
  for (int i = 0; i < 100 && answer.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    answer = get(server, "GET /metrics HTTP/1.1");
  }
  EXPECT_THAT(answer, HasSubstr("tandem_loss 1\n"));
}

TEST(MetricsServer, EndsWithConnectionsOpen) {
  auto server = std::make_unique<MetricsServer>(std::uint16_t{0});
  const Client silent(server->port());
  ASSERT_TRUE(silent.connected());
  const auto start = Clock::now();
  server.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
}

}  // namespace
}  // namespace tandem::testing
