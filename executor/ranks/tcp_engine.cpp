#include "executor/ranks/tcp_engine.h"

#include <fmt/format.h>

#include "core/base/check.h"

namespace tandem {

namespace asio = boost::asio;

TcpEngine::TcpEngine(Notice on_failure, Notice on_end, FaultInjector* faults)
    : on_failure_(std::move(on_failure)),
      on_end_(on_end ? std::move(on_end) : on_failure_),
      faults_(faults),
      context_(1),
      goes_on_(asio::make_work_guard(context_)),
      thread_([this] { context_.run(); }) {}

TcpEngine::~TcpEngine() { TcpEngine::abort(); }

void TcpEngine::add(std::int32_t rank, std::size_t channel, const std::string& name,
                    asio::ip::tcp::socket socket) {
  // From the context that connected it to the engine's own.
  const auto protocol = socket.local_endpoint().protocol();
  asio::ip::tcp::socket here(context_, protocol, socket.release());
  const bool added =
      lanes_
          .emplace(std::pair{rank, channel},
                   std::make_unique<TcpLane>(
                       std::move(here),
                       TcpLane::Setup{.channel = static_cast<std::uint32_t>(channel),
                                      .name = fmt::format("{}, with rank {}", name, rank),
                                      .on_failure = on_failure_,
                                      .on_end = on_end_,
                                      .faults = faults_}))
          .second;
  TANDEM_CHECK(added, rank, channel);
}

TcpLane& TcpEngine::lane(std::int32_t rank, std::size_t channel) const {
  const auto found = lanes_.find({rank, channel});
  TANDEM_CHECK(found != lanes_.end(), rank, channel);
  return *found->second;
}

void TcpEngine::send(std::int32_t rank, std::size_t channel, std::span<const std::byte> bytes,
                     Sent sent) {
  lane(rank, channel).send(bytes, std::move(sent));
}
void TcpEngine::receive(std::int32_t rank, std::size_t channel, std::span<std::byte> into,
                        Received received) {
  lane(rank, channel).receive(into, std::move(received));
}

std::vector<ChannelCount> TcpEngine::counts() {
  std::vector<ChannelCount> all;
  for (const auto& [key, lane] : lanes_) all.push_back(lane->count(key.first));
  return all;
}

void TcpEngine::abort() {
  for (const auto& [key, lane] : lanes_) lane->close();
  goes_on_.reset();
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tandem
