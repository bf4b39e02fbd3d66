#pragma once
// CopyExchange: copies of a run's state in the memory of several hosts. What a host has written of
// its stages it passes on to a rank of the next host, so that a host that comes back without its
// memory, or another in its place, is brought what it needs.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/memory/memory.h"
#include "core/program/program.h"
#include "executor/copies/stage_copies.h"
#include "executor/ranks/rank_group.h"

namespace tandem {

/// Whose the stages of a run are.
struct StagesOfRanks {
  std::map<std::size_t, std::int32_t> written_by;  // of each stage that has parameters: its rank
  std::vector<std::set<std::size_t>> read_by;      // by rank
};
/// `layers`: of each stage. `first_reads_all`: as a reference does, which has all stages.
StagesOfRanks stages_of_ranks(const Program& program, const SlotCounts& slots,
                              const ModelSpec& model, const std::vector<LayerRange>& layers,
                              const DeviceRanks& rank_of, std::int32_t ranks, bool first_reads_all);

/// Who has which copies, as all ranks tell.
class CopyTable {
 public:
  struct Transfer {
    StageCopy copy;
    std::int32_t source = 0, target = 0;
  };
  /// What a rank tells. `folder`: of its host, by which hosts are told apart.
  struct Row {
    std::string folder;
    std::vector<StageCopy> copies = {};
  };

  explicit CopyTable(std::vector<Row> rows);

  std::size_t hosts() const { return ranks_of_.size(); }
  /// Lowest first.
  const std::vector<std::int32_t>& ranks_beside(std::int32_t rank) const {
    return ranks_of_[host_of_[static_cast<std::size_t>(rank)]];
  }
  /// On the next host; empty: there is none.
  std::optional<std::int32_t> neighbour(std::int32_t rank) const;
  /// The newest batch of which some host has each stage.
  std::optional<std::int64_t> newest(const StagesOfRanks& stages) const;
  /// What hosts lack of that batch that their ranks read: to the first of these.
  std::vector<Transfer> transfers(std::int64_t batches, const StagesOfRanks& stages) const;

 private:
  /// That a host has; null: it has not.
  const StageCopy* find(std::size_t host, std::size_t stage, std::int64_t batches) const;

  std::vector<Row> rows_;
  std::vector<std::size_t> host_of_;
  std::vector<std::vector<std::int32_t>> ranks_of_;  // by host
};

class CopyExchange {
 public:
  /// All ranks make theirs at once; when it returns, what each reads of newest() is in its host's
  /// folder, and no copy of a later batch is anywhere. `ramp`: of the program; `checkpoint`:
  /// batches of the first rank's newest, which goes before older copies. Throws DeviceError.
  CopyExchange(RankGroup& group, std::string folder, StagesOfRanks stages, std::int64_t ramp,
               std::int64_t checkpoint);
  ~CopyExchange();

  /// What all go on from; empty: no copies.
  std::optional<std::int64_t> newest() const { return newest_; }
  const std::set<std::size_t>& stages_read() const;
  /// Copies of each stage that a host keeps.
  std::int64_t keep() const;
  /// Copies are on this host of: those that its ranks write and those that are passed on to them.
  std::set<std::size_t> stages_here() const;
  /// Of the ranks of its host.
  bool is_first_here() const;

  /// A copy that this rank has written goes to the neighbour, while it goes on. Waits until the
  /// stage's last one is there. Throws DeviceError where the run has failed.
  void pass_on(const StageCopy& copy);
  /// The run has ended: what is not on its way is not sent any more. By all ranks at once, unless
  /// it was interrupted: then nobody waits for anything.
  void finish(bool interrupted);

 private:
  using Link = std::shared_ptr<ControlLink>;
  /// What is touched by the thread of the group, too.
  struct Shared {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::map<std::size_t, std::int64_t> given, taken;  // batches of the last, by stage
    std::size_t arrived = 0;
    bool over = false;
  };
  /// What arrives, by the thread of the group.
  class Inbox;

  CopyTable exchange_rows(std::int64_t& checkpoint);
  void fetch();
  void wait_for(const std::function<bool()>& there);
  void send(std::int32_t target, const StageCopy& copy, const std::stop_token& stop) const;
  void send_given(const std::stop_token& stop);

  RankGroup& group_;
  const std::string folder_;
  const StagesOfRanks stages_;
  const std::int64_t ramp_;
  std::optional<CopyTable> table_;
  std::optional<std::int64_t> newest_;
  std::optional<std::int32_t> neighbour_;
  std::map<std::int32_t, Link> links_;
  std::shared_ptr<Shared> shared_;
  std::deque<StageCopy> queue_;
  std::jthread thread_;
};

}  // namespace tandem
