#include "executor/ranks/tcp_lane.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <fmt/format.h>

namespace tandem {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

namespace {

/// What a thread that computes sends by itself; more is for the engine's.
constexpr std::size_t kSmall = 64 << 10;
/// Bytes that a checksum takes up while they are in the cache.
constexpr std::size_t kPiece = 256 << 10;
constexpr auto kInjectedDelay = std::chrono::milliseconds(200);

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void make(const std::vector<std::function<void()>>& calls) {
  for (const auto& call : calls) call();
}

}  // namespace

TcpLane::TcpLane(Socket socket, Setup setup)
    : setup_(std::move(setup)), socket_(std::move(socket)) {
  socket_.non_blocking(true);
  socket_.set_option(asio::ip::tcp::no_delay(true));
}

void TcpLane::send(std::span<const std::byte> bytes, MessageEngine::Sent sent) {
  const FaultKind fault = setup_.faults == nullptr ? FaultKind::none : setup_.faults->at_frame();
  if (fault == FaultKind::delay) std::this_thread::sleep_for(kInjectedDelay);
  Calls ended;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    FrameHeader header{
        .channel = setup_.channel, .sequence = sent_++, .bytes = bytes.size(), .left_ns = now_ns()};
    out_sum_.begin();
    out_sum_.add(bytes);
    header.checksum = out_sum_.end(header);
    if (fault == FaultKind::corrupt) header.checksum ^= 1;
    if (fault == FaultKind::drop) {
      ended.emplace_back(std::move(sent));
    } else if (fault == FaultKind::stall) {
      return;  // it is never sent
    } else {
      if (fault == FaultKind::duplicate) outgoing_.push_back({header, bytes, [] {}});
      outgoing_.push_back({header, bytes, std::move(sent)});
    }
    if (!waits_to_write_ && !outgoing_.empty()) {
      if (bytes.size() <= kSmall)
        write(ended);
      else
        wait_for(Socket::wait_write);
    }
  }
  make(ended);
}

void TcpLane::receive(std::span<std::byte> into, MessageEngine::Received received) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  incoming_.push_back({into, std::move(received)});
  if (!waits_to_read_) wait_for(Socket::wait_read);
}

ChannelCount TcpLane::count(std::int32_t rank) {
  const std::lock_guard lock(mutex_);
  return {.rank = rank,
          .waits = !incoming_.empty(),
          .channel = setup_.channel,
          .given = sent_,
          .arrived = received_};
}

void TcpLane::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  ErrorCode ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  outgoing_.clear();
  incoming_.clear();
}

void TcpLane::wait_for(Socket::wait_type what) {
  const bool writes = what == Socket::wait_write;
  (writes ? waits_to_write_ : waits_to_read_) = true;
  socket_.async_wait(what, [this, writes](const ErrorCode& error) {
    Calls ended;
    {
      const std::lock_guard lock(mutex_);
      (writes ? waits_to_write_ : waits_to_read_) = false;
      if (closed_ || error == asio::error::operation_aborted) return;
      writes ? write(ended) : read(ended);
    }
    make(ended);
  });
}

void TcpLane::write(Calls& ended) {
  while (!outgoing_.empty()) {
    Outgoing& first = outgoing_.front();
    const auto header = std::as_bytes(std::span(&first.header, 1));
    const std::size_t of_header = std::min(first.written, header.size());
    const std::array<asio::const_buffer, 2> buffers{
        asio::const_buffer(header.data() + of_header, header.size() - of_header),
        asio::buffer(first.bytes.data() + (first.written - of_header),
                     first.bytes.size() - (first.written - of_header))};
    ErrorCode error;
    first.written += socket_.write_some(buffers, error);
    if (error == asio::error::would_block) return wait_for(Socket::wait_write);
    if (error) return shut(setup_.on_end, error.message());
    if (first.written < header.size() + first.bytes.size()) continue;
    ended.emplace_back(std::move(first.sent));
    outgoing_.pop_front();
  }
}

void TcpLane::read(Calls& ended) {
  while (!incoming_.empty() && !closed_) {
    const auto header = std::as_writable_bytes(std::span(&arriving_, 1));
    const bool in_header = arrived_ < header.size();
    const std::span<std::byte> into =
        in_header ? header.subspan(arrived_)
                  : incoming_.front().into.subspan(arrived_ - header.size());
    const std::size_t some = read_some(into.first(std::min(into.size(), kPiece)));
    if (closed_) return;
    if (some == 0) return wait_for(Socket::wait_read);
    if (!in_header) in_sum_.add(into.first(some));
    arrived_ += some;
    if (arrived_ == header.size()) begin_frame();
    if (!closed_ && arrived_ == header.size() + arriving_.bytes) end_frame(ended);
  }
}

std::size_t TcpLane::read_some(std::span<std::byte> into) {
  ErrorCode error;
  const std::size_t some = socket_.read_some(asio::buffer(into.data(), into.size()), error);
  if (!error) return some;
  if (error != asio::error::would_block)
    shut(setup_.on_end,
         error == asio::error::eof ? "the other side has closed it" : error.message());
  return 0;
}

void TcpLane::begin_frame() {
  if (arriving_.magic != FrameHeader::kMagic || arriving_.channel != setup_.channel)
    return fail("what arrived is no frame of it");
  if (arriving_.sequence != received_) {
    return fail(
        fmt::format("frame {} arrived where frame {} was due", arriving_.sequence, received_));
  }
  if (arriving_.bytes != incoming_.front().into.size()) {
    return fail(fmt::format("frame {} has {} bytes where {} were due", arriving_.sequence,
                            arriving_.bytes, incoming_.front().into.size()));
  }
  in_sum_.begin();
}

void TcpLane::end_frame(Calls& ended) {
  if (in_sum_.end(arriving_) != arriving_.checksum)
    return fail(fmt::format("the checksum of frame {} is wrong", arriving_.sequence));
  ++received_;
  arrived_ = 0;
  const MessageEngine::Time left{std::chrono::nanoseconds(arriving_.left_ns)};
  ended.emplace_back([received = std::move(incoming_.front().received), left] { received(left); });
  incoming_.pop_front();
}

void TcpLane::shut(const Notice& notice, const std::string& why) {
  closed_ = true;
  ErrorCode ignored;
  socket_.close(ignored);
  tell(notice, fmt::format("{}: {}", setup_.name, why));
}

}  // namespace tandem
