#pragma once
// TcpEngine: a connection for each channel between two ranks, and one thread for all of them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "executor/backend/notice.h"
#include "executor/ranks/fault.h"
#include "executor/ranks/message_engine.h"
#include "executor/ranks/tcp_lane.h"

namespace tandem {

class TcpEngine final : public MessageEngine {
 public:
  /// `on_failure` is told what arrived wrong, `on_end` (or the same) what connection has ended,
  /// maybe more than once, by any thread.
  explicit TcpEngine(Notice on_failure, Notice on_end = {}, FaultInjector* faults = nullptr);
  ~TcpEngine() override;

  /// A connection that is there, to `rank` for `channel`. Before anything is sent over it.
  void add(std::int32_t rank, std::size_t channel, const std::string& name,
           boost::asio::ip::tcp::socket socket);

  void send(std::int32_t rank, std::size_t channel, std::span<const std::byte> bytes,
            Sent sent) override;
  void receive(std::int32_t rank, std::size_t channel, std::span<std::byte> into,
               Received received) override;
  std::vector<ChannelCount> counts() override;
  void abort() override;

 private:
  using Context = boost::asio::io_context;
  TcpLane& lane(std::int32_t rank, std::size_t channel) const;

  const Notice on_failure_, on_end_;
  FaultInjector* const faults_;
  Context context_;
  boost::asio::executor_work_guard<Context::executor_type> goes_on_;
  std::map<std::pair<std::int32_t, std::size_t>, std::unique_ptr<TcpLane>> lanes_;
  std::jthread thread_;
};

}  // namespace tandem
