#pragma once
// RankGroup: the processes of a run, and the connections that keep them together: one from each to
// the first rank, on which they find one another, hear whether all are alive, and are told who has
// failed.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "core/base/units.h"
#include "executor/backend/notice.h"
#include "executor/ranks/control_link.h"
#include "executor/ranks/fault.h"
#include "executor/ranks/listener.h"
#include "executor/ranks/local_ranks.h"
#include "executor/ranks/mpi_module.h"
#include "executor/ranks/tcp_engine.h"
#include "executor/run/communicator_plans.h"

namespace tandem {

/// Where one of them is.
struct RankInfo {
  std::string host;
  std::int64_t process = 0;
  std::string address;  // where it takes connections
  std::uint16_t port = 0;
  Duration clock_ahead{};  // of the first rank's
};

struct RankGroupSetup {
  std::int32_t rank = 0, ranks = 1;
  std::string rendezvous_host = "127.0.0.1";
  std::uint16_t rendezvous_port = 0;
  std::string secret;
  /// What must be the same on all ranks, by name: "plan", "options". Hashes.
  std::vector<std::pair<std::string, std::uint64_t>> identity = {};
  Duration patience = std::chrono::seconds(60);    // until all are there
  Duration before_note = std::chrono::seconds(3);  // of who is awaited; none where no on_notice is
  Notice on_notice = {};
  Duration silence = std::chrono::seconds(3);      // after which one is lost
  Duration beat = std::chrono::milliseconds(250);  // between heartbeats
  /// What breaks between two ranks may be the end of one of them, which is told of later.
  Duration doubt = std::chrono::milliseconds(3500);
  /// Finds the run's other processes on this host, for a launcher that does not watch them. Who
  /// stands still is killed at the end of this process. Null: nobody is looked for.
  std::function<std::vector<LocalRank>()> local_ranks = {};
  Duration standing_still =
      std::chrono::milliseconds(1500);  // by a signal, after which one is lost
  FaultInjector* faults = nullptr;
  MpiModule* mpi = nullptr;  // carries what ranks send; null: TCP does
};

class RankGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What a rank hears of the others, by the thread of the group.
  struct Ears {
    std::function<void(std::int32_t from, MessageKind, const std::string&)> on_message;
    std::function<void(const std::string& why)> on_failure;
    std::function<std::string()> heartbeat;                 // what this rank is at
    std::function<std::string(std::int32_t)> last_seen_at;  // what a rank was at: may be empty
  };

  /// Returns when all ranks are there. Throws DeviceError where some don't come, and InputError
  /// where what must be the same is not.
  explicit RankGroup(RankGroupSetup setup);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  std::int32_t rank() const { return setup_.rank; }
  std::int32_t ranks() const { return setup_.ranks; }
  const RankInfo& info(std::int32_t rank) const { return infos_[static_cast<std::size_t>(rank)]; }
  /// "rank 1 (host a, process 77)".
  std::string name(std::int32_t rank) const;

  /// Connects a channel for each of the plans that this rank has part in. All ranks call it.
  std::unique_ptr<MessageEngine> connect(const CommunicatorPlans& plans,
                                         const DeviceRanks& rank_of);

  /// A link of its own to each of those ranks, which must ask for one to this rank at once. Once.
  /// What `ears` makes hears it, by the thread of the group.
  std::map<std::int32_t, std::shared_ptr<ControlLink>> link_to(
      const std::set<std::int32_t>& others,
      const std::function<ControlLink::Ears(std::int32_t, const std::shared_ptr<ControlLink>&)>&
          ears);

  /// When it returns, nothing of what was told before is called any more.
  void listen(Ears ears);
  /// To the first rank; by that one: to itself.
  void tell_first(MessageKind kind, std::string payload);
  void tell_first_long(MessageKind kind, std::string payload);
  /// Of the first rank.
  void tell(std::int32_t rank, MessageKind kind, std::string payload);

  /// Waits for all. Throws DeviceError once any has failed.
  void barrier();
  /// By rank, on the first one; else nothing.
  std::vector<std::string> gather(std::string mine);
  /// What the first rank brings, on all of them.
  std::string broadcast(std::string mine);
  /// Throws InputError, on all ranks, where one has another `hash` of `what` than the first.
  void agree(const std::string& what, std::uint64_t hash);
  /// Throws DeviceError where a rank has failed, InputError where one was refused. Does not wait.
  void check() const;
  /// This rank has failed: all are told, unless one has failed before. Returns what is said then.
  std::string fail(const std::string& why);
  /// What another rank has sent is wrong. From any thread, which does not wait.
  void blame(const std::string& why);
  /// Something between two ranks broke, maybe because one is gone: there is time to hear of that
  /// first.
  void suspect(const std::string& why);
  void stop_all();
  /// As the end of the process would, for tests.
  void break_links();
  /// Links end as they should: nobody is lost.
  void part();

 private:
  using Socket = boost::asio::ip::tcp::socket;
  using Link = std::shared_ptr<ControlLink>;

  std::unique_ptr<MessageEngine> connect_by_mpi(const CommunicatorPlans& plans);
  /// Ends the thread, too.
  void leave();
  void start_first();
  void start_other();
  void take(ConnectionPurpose purpose, Socket socket);
  void add_link(std::int32_t rank, Socket socket);
  void hear(std::int32_t from, MessageKind kind, std::string payload);
  void greet(std::int32_t from, const std::string& hello);
  std::string hello() const;
  std::string reason_against(std::int32_t rank, const std::string& hello) const;
  void welcome();
  void take_welcome(const std::string& table);
  void answer_ping(std::int32_t from, const std::string& ping);
  void take_pong(const std::string& pong);
  void pass_barrier();
  void beat();
  void look_around(Time now, bool held_up);
  void lose(std::int32_t rank, const std::string& why);
  void announce(const std::string& text);
  void hear_failure(const std::string& text, bool refused);
  void refuse(const std::string& reason);
  std::string reason_of_other(std::int32_t rank, const std::string& what) const;
  void wait(const std::function<bool()>& there, const std::string& what, Duration patience);
  /// Tells who is awaited, by the first rank: all those that are there.
  void tell_awaited(const std::string& what);
  /// With a higher rank; with a lower one, which has connected it.
  Socket connect_channel(std::int32_t higher, std::uint64_t channel, Time deadline);
  Socket arrived_channel(std::int32_t lower, std::uint64_t channel, const std::string& name);
  /// Throws DeviceError.
  Socket connect_to_rank(const std::string& host, std::uint16_t port, ConnectionPurpose purpose,
                         Time deadline);
  void check_locked() const;          // REQUIRES: mutex_ is held
  std::string missing_ranks() const;  // REQUIRES: mutex_ is held
  /// Those that are connected.
  std::map<std::int32_t, Link> links() const;

  const RankGroupSetup setup_;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> goes_on_;
  std::unique_ptr<Listener> listener_;
  boost::asio::steady_timer heart_, doubt_;
  Time last_beat_{};
  LocalWatch local_watch_;
  std::vector<RankInfo> infos_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int32_t, Link> links_;  // of the first rank to all; of others to that one
  std::map<std::pair<std::int32_t, std::uint64_t>, Socket> arrivals_;  // channels
  std::vector<bool> greeted_;
  std::string objection_;  // to the first that has something else
  bool all_there_ = false, parted_ = false, refused_ = false;
  std::int64_t barriers_ = 0, passed_ = 0;  // that this rank came to; that all did
  std::map<std::int64_t, std::int32_t> arrived_;
  std::int64_t gathers_ = 0;
  std::map<std::int64_t, std::map<std::int32_t, std::string>> gathered_;
  std::int64_t broadcasts_ = 0;
  std::map<std::int64_t, std::string> broadcast_;  // by the first rank, not taken yet
  int pongs_ = 0;
  Duration best_round_trip_ = Duration::max();
  std::optional<std::string> failure_;
  std::optional<std::string> mpi_started_;  // or why it is not; empty: it is
  Ears ears_;
  std::jthread thread_;
};

}  // namespace tandem
