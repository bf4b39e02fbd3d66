#pragma once
// NCCL played among threads, each as a process of its own: what is collective ends when all have
// come, nothing blocks, messages and sums wait on their streams for the other side, and an abort
// frees the streams of the one that aborts alone, as NCCL's does. Whoever makes communicators in
// another order than the others waits for ever here, too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "executor/cuda/nccl.h"

namespace tandem::cuda::testing {

/// What NCCL launches on; its handle is its address.
class FakeStream {
 public:
  FakeStream() = default;
  virtual ~FakeStream() = default;
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  /// Runs it, in order, once it is ready; empty: at once.
  virtual void launch(std::function<bool()> ready, std::function<void()> run) = 0;
  GpuStream handle() { return reinterpret_cast<GpuStream>(this); }
  static FakeStream& of(GpuStream handle) { return *reinterpret_cast<FakeStream*>(handle); }
};

/// What the processes share.
class NcclWorld {
 public:
  /// A fault: those left alone hear, as of a broken connection, that another rank has aborted.
  bool tells_of_aborts = false;

  /// Called after each change; returns what takes it back.
  std::shared_ptr<void> on_change(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    const int number = calls_made_++;
    calls_.emplace(number, std::move(call));
    return {nullptr, [this, number](void*) {
              const std::lock_guard taking_back(mutex_);
              calls_.erase(number);
            }};
  }
  /// Communicators that nobody has ended.
  std::size_t left() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(all_, [](const auto& each) { return !each->dead; }));
  }
  std::size_t made() const { return all_.size(); }
  /// What no user of NCCL may do.
  std::vector<std::string> misuses() const {
    const std::lock_guard lock(mutex_);
    return misuses_;
  }
  int ids() const { return ids_; }

 private:
  friend class NcclOfThread;

  struct Rank;
  struct Message {  // of all that one rank sends another
    std::int64_t sends = 0, receives = 0, offers = 0, takes = 0;
    std::span<const std::byte> offered;
  };
  struct Sum {
    std::map<int, std::vector<float>> brought;
    std::size_t taken = 0;
  };
  struct Share {  // of a split
    int part = 0;
    CommunicatorPlace place;
    NcclHandle* made = nullptr;
  };
  struct Group {
    std::vector<Rank*> ranks;  // null: it has not come
    std::size_t here = 0, finalized = 0, aborted = 0;
    std::map<std::size_t, std::map<int, Share>> splits;
    std::map<std::pair<int, int>, Message> messages;
    std::map<std::size_t, Sum> sums;
  };
  struct Rank {
    std::shared_ptr<Group> group;
    int rank = 0;
    CommunicatorPlace place;
    bool dead = false, finalized = false;
    int looks = 0;  // before what was given last has been taken up
    std::size_t splits = 0, sums = 0;
  };

  static Rank& of(NcclHandle handle) { return *reinterpret_cast<Rank*>(handle); }
  Rank& add(const std::shared_ptr<Group>& group, int rank, const CommunicatorPlace& place) {
    Rank& made = *all_.emplace_back(std::make_unique<Rank>());
    made.group = group;
    made.rank = rank;
    made.place = place;
    group->ranks[static_cast<std::size_t>(rank)] = &made;
    ++group->here;
    return made;
  }
  /// When the last has given its share.
  void make_parts(const std::map<int, Share>& shares) {
    std::map<int, std::map<int, const Share*>> parts;
    for (const auto& [rank, share] : shares) {
      if (share.part >= 0 && share.made != nullptr)
        parts[share.part].emplace(share.place.rank, &share);
    }
    for (const auto& [part, members] : parts) {
      const auto group = std::make_shared<Group>();
      group->ranks.resize(members.size());
      int rank = 0;
      for (const auto& [key, share] : members)
        *share->made = reinterpret_cast<NcclHandle>(&add(group, rank++, share->place));
    }
  }
  void changed() const {
    for (const auto& [number, call] : calls_) call();
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Rank>> all_;
  std::map<NcclId, std::shared_ptr<Group>> by_id_;
  std::map<int, std::function<void()>> calls_;
  std::vector<std::string> misuses_;
  int ids_ = 0, calls_made_ = 0;
};

/// One process's.
class NcclOfThread final : public Nccl {
 public:
  explicit NcclOfThread(NcclWorld& world) : world_(world) {}

  /// Faults: the call of this name, and number from 0 on, fails; or comes to nothing.
  std::map<std::string, int> fails_at, is_lost_at;
  /// A fault: it gives its part another number.
  bool mistakes_parts = false;
  /// Of the communicators that it was split into, in order.
  std::vector<std::string> parts;

  std::string version() const override { return "2.28.0"; }
  std::string describe(NcclResult result) const override {
    return result == NcclResult::remote_failed ? "remote error" : "internal error";
  }
  std::string last_error(NcclHandle) const override { return {}; }

  NcclResult make_id(NcclId& id) override {
    const std::lock_guard lock(world_.mutex_);
    id[0] = static_cast<char>(++world_.ids_);
    return NcclResult::success;
  }
  NcclResult init(NcclHandle& made, const NcclId& id, const CommunicatorPlace& place) override {
    const std::lock_guard lock(world_.mutex_);
    if (comes_up(fails_at, "init")) return kFailed;
    auto& group = world_.by_id_[id];
    if (!group) {
      group = std::make_shared<NcclWorld::Group>();
      group->ranks.resize(static_cast<std::size_t>(place.ranks));
    }
    const auto rank = static_cast<std::size_t>(place.rank);
    if (rank >= group->ranks.size() || group->ranks[rank] != nullptr) return misuse("init twice");
    made = reinterpret_cast<NcclHandle>(&world_.add(group, place.rank, place));
    return NcclResult::in_progress;
  }
  NcclResult split(NcclHandle parent, int part, NcclHandle& made,
                   const CommunicatorPlace& place) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& rank = NcclWorld::of(parent);
    if (rank.dead || rank.group->here < rank.group->ranks.size()) return misuse("split too early");
    if (comes_up(fails_at, "split")) return kFailed;
    const std::size_t number = rank.splits++;
    if (comes_up(is_lost_at, "split")) return NcclResult::in_progress;
    if (part >= 0) parts.push_back(place.name);
    auto& shares = rank.group->splits[number];
    shares[rank.rank] = {
        .part = part >= 0 && mistakes_parts ? part + 1 : part, .place = place, .made = &made};
    if (shares.size() == rank.group->ranks.size()) world_.make_parts(shares);
    return NcclResult::in_progress;
  }
  NcclResult size(NcclHandle handle, int& ranks, int& rank) override {
    const std::lock_guard lock(world_.mutex_);
    ranks = static_cast<int>(NcclWorld::of(handle).group->ranks.size());
    rank = NcclWorld::of(handle).rank;
    return NcclResult::success;
  }
  NcclResult async_error(NcclHandle handle, NcclResult& state) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& rank = NcclWorld::of(handle);
    if (rank.dead) return misuse("asked after its end");
    state = state_of(rank);
    return NcclResult::success;
  }
  NcclResult finalize(NcclHandle handle) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& rank = NcclWorld::of(handle);
    if (rank.dead || std::exchange(rank.finalized, true)) return misuse("finalized twice");
    ++rank.group->finalized;
    return NcclResult::in_progress;
  }
  NcclResult destroy(NcclHandle handle) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& rank = NcclWorld::of(handle);
    if (std::exchange(rank.dead, true) || !rank.finalized) return misuse("destroyed too early");
    return NcclResult::success;
  }
  NcclResult abort(NcclHandle handle) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& rank = NcclWorld::of(handle);
    if (std::exchange(rank.dead, true)) return misuse("aborted twice");
    ++rank.group->aborted;
    for (auto& [number, shares] : rank.group->splits) {
      if (const auto share = shares.find(rank.rank); share != shares.end())
        share->second.made = nullptr;
    }
    for (auto& [ends, message] : rank.group->messages) {
      if (ends.first == rank.rank) message.offers = message.takes;  // what it gives is gone
    }
    world_.changed();
    return NcclResult::success;
  }
  NcclResult group_start() override { return NcclResult::success; }
  NcclResult group_end() override { return NcclResult::in_progress; }

  NcclResult send(std::span<const std::byte> bytes, int to, NcclHandle handle,
                  GpuStream stream) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& me = NcclWorld::of(handle);
    if (me.dead) return misuse("sends after its end");
    if (comes_up(fails_at, "send")) return kFailed;
    me.looks = calls_++ % 3;
    NcclWorld::Message& message = me.group->messages[{me.rank, to}];
    const std::int64_t number = message.sends++;
    launch(
        me, stream, [] { return true; },
        [&message, bytes] {
          message.offered = bytes;
          ++message.offers;
        });
    launch(me, stream, [&message, number] { return message.takes > number; }, [] {});
    return NcclResult::in_progress;
  }
  NcclResult receive(std::span<std::byte> into, int from, NcclHandle handle,
                     GpuStream stream) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& me = NcclWorld::of(handle);
    if (me.dead) return misuse("receives after its end");
    if (comes_up(fails_at, "receive")) return kFailed;
    me.looks = calls_++ % 3;
    NcclWorld::Message& message = me.group->messages[{from, me.rank}];
    const std::int64_t number = message.receives++;
    launch(
        me, stream, [&message, number] { return message.offers > number; },
        [this, &message, number, into] {
          if (message.offers <= number) return;  // aborted meanwhile
          if (message.offered.size() == into.size())
            std::memcpy(into.data(), message.offered.data(), into.size());
          else
            misuse("a message of another length");
          ++message.takes;
        });
    return NcclResult::in_progress;
  }
  /// In the order of ranks.
  NcclResult sum(std::span<float> values, NcclHandle handle, GpuStream stream) override {
    const std::lock_guard lock(world_.mutex_);
    NcclWorld::Rank& me = NcclWorld::of(handle);
    if (me.dead) return misuse("sums after its end");
    if (comes_up(fails_at, "sum")) return kFailed;
    me.looks = calls_++ % 3;
    const std::size_t round = me.sums++;
    launch(
        me, stream, [] { return true; },
        [&me, round, values] {
          me.group->sums[round].brought[me.rank] = {values.begin(), values.end()};
        });
    launch(
        me, stream,
        [&me, round] { return me.group->sums[round].brought.size() == me.group->ranks.size(); },
        [&me, round, values] {
          NcclWorld::Sum& sum = me.group->sums[round];
          std::ranges::fill(values, 0.0F);
          for (const auto& [rank, brought] : sum.brought) {
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = rank == 0 ? brought[i] : values[i] + brought[i];
          }
          if (++sum.taken == me.group->ranks.size()) me.group->sums.erase(round);
        });
    return NcclResult::in_progress;
  }

 private:
  static constexpr auto kFailed = static_cast<NcclResult>(3);  // ncclInternalError

  /// An abort ends the wait, and what would run then does not.
  void launch(NcclWorld::Rank& me, GpuStream stream, std::function<bool()> ready,
              std::function<void()> run) {
    NcclWorld& world = world_;
    FakeStream::of(stream).launch(
        [&world, &me, ready = std::move(ready)] {
          const std::lock_guard lock(world.mutex_);
          return me.dead || ready();
        },
        [&world, &me, run = std::move(run)] {
          const std::lock_guard lock(world.mutex_);
          if (!me.dead) run();
          world.changed();
        });
  }
  NcclResult state_of(NcclWorld::Rank& rank) const {
    const NcclWorld::Group& group = *rank.group;
    if (world_.tells_of_aborts && group.aborted > 0) return NcclResult::remote_failed;
    if (group.here < group.ranks.size()) return NcclResult::in_progress;
    for (std::size_t i = 0; i < rank.splits; ++i) {
      const auto shares = group.splits.find(i);
      if (shares == group.splits.end() || shares->second.size() < group.ranks.size())
        return NcclResult::in_progress;
    }
    if (rank.finalized && group.finalized < group.ranks.size()) return NcclResult::in_progress;
    if (rank.looks > 0) {
      --rank.looks;
      return NcclResult::in_progress;
    }
    return NcclResult::success;
  }
  /// Whether this is the call that a fault is for.
  bool comes_up(std::map<std::string, int>& faults, const std::string& call) {
    const auto found = faults.find(call);
    return found != faults.end() && found->second-- == 0;
  }
  NcclResult misuse(const std::string& what) {
    world_.misuses_.push_back(what);
    return NcclResult::invalid_usage;
  }

  NcclWorld& world_;
  int calls_ = 0;
};

}  // namespace tandem::cuda::testing
