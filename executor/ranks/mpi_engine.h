#pragma once
// MpiEngine: a tag for each channel, in one communicator, all by one thread. Before each message
// goes a header, which TCP's frames have too.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "executor/ranks/frame.h"
#include "executor/ranks/mpi_module.h"
#include "executor/ranks/mpi_thread.h"

namespace tandem {

class MpiEngine final : public MessageEngine {
 public:
  /// The thread outlives it.
  MpiEngine(MpiThread& thread, MpiEngineSetup setup);
  ~MpiEngine() override;

  void send(std::int32_t rank, std::size_t channel, std::span<const std::byte> bytes,
            Sent sent) override;
  void receive(std::int32_t rank, std::size_t channel, std::span<std::byte> into,
               Received received) override;
  void abort() override;

 private:
  using Clock = std::chrono::steady_clock;
  using Lane = std::pair<std::int32_t, std::size_t>;  // a rank and a channel
  /// A message: what is asked for, and what MPI has of it.
  struct Message {
    Lane lane;
    bool is_sent = false;
    std::byte* bytes = nullptr;  // which MPI but reads, where it is sent
    std::size_t size = 0;
    Sent sent = {};
    Received received = {};
    FrameHeader header = {};     // as it is sent, or arrives
    std::uint64_t sequence = 0;  // of the lane
    std::size_t unfinished = 0;  // requests
  };

  void ask(std::unique_ptr<Message> message);
  // By the thread:
  void work(MPI_Comm ranks, const std::string& why);
  std::string reason_against() const;
  /// Waits for something to do; false: the engine is over.
  bool take(Clock::duration idle, std::vector<std::unique_ptr<Message>>& asked);
  void start(std::unique_ptr<Message> message);
  void request(Message& message, void* bytes, std::size_t size);
  /// Whether something has ended.
  bool test();
  void finish(Message& message);
  void check(const Message& message);
  void fail(const Message& message, const std::string& why);
  void drop();

  MpiThread& thread_;
  const MpiEngineSetup setup_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Message>> asked_;
  bool over_ = false, failed_ = false;

  // Of the thread:
  MPI_Comm ranks_ = MPI_COMM_NULL;
  std::map<Message*, std::unique_ptr<Message>> under_way_;
  std::vector<MPI_Request> requests_;
  std::vector<Message*> owners_;  // of each request
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
  std::map<Lane, std::uint64_t> sent_, received_;
};

}  // namespace tandem
