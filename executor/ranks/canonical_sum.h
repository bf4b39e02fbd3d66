#pragma once
// CanonicalSum: a sum over ranks that adds in the order of the members, whatever arrives first: the
// bits are those of one process that has all of them. Each rank sums a part of the elements, piece
// by piece, and gives the others what came out.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "executor/ranks/message_engine.h"
#include "executor/run/other_ranks.h"

namespace tandem {

/// One sum. It keeps itself alive until it has ended.
template <class U>
class CanonicalSum : public std::enable_shared_from_this<CanonicalSum<U>> {
 public:
  using Ended = std::function<void()>;

  /// `order`: the rank of each member. `shares`: of this rank's members, in their order, as long as
  /// one another. Each has the sum at the end.
  static void begin(MessageEngine& engine, std::size_t channel, std::int32_t me,
                    std::vector<std::int32_t> order, std::vector<std::span<U>> shares,
                    Ended ended) {
    std::shared_ptr<CanonicalSum> sum(new CanonicalSum(engine, channel, me, std::move(order),
                                                       std::move(shares), std::move(ended)));
    sum->give_shares();
    sum->add_next(0);
  }

 private:
  /// Elements that are added at a time.
  static constexpr std::size_t kPiece = (256 << 10) / sizeof(U);
  struct Range {
    std::size_t first = 0, last = 0;
    std::size_t size() const { return last - first; }
  };

  CanonicalSum(MessageEngine& engine, std::size_t channel, std::int32_t me,
               std::vector<std::int32_t> order, std::vector<std::span<U>> shares, Ended ended)
      : engine_(engine),
        channel_(channel),
        me_(me),
        order_(std::move(order)),
        shares_(std::move(shares)),
        ended_(std::move(ended)),
        ranks_(order_) {
    std::ranges::sort(ranks_);
    ranks_.erase(std::unique(ranks_.begin(), ranks_.end()), ranks_.end());
    arrived_.resize(order_.size());
  }

  /// What a rank sums.
  Range part_of(std::int32_t rank) const {
    const auto place = static_cast<std::size_t>(std::ranges::find(ranks_, rank) - ranks_.begin());
    const std::size_t all = shares_.front().size();
    return {all * place / ranks_.size(), all * (place + 1) / ranks_.size()};
  }
  std::size_t pieces_of(std::int32_t rank) const {
    return (part_of(rank).size() + kPiece - 1) / kPiece;
  }
  Range piece_of(std::int32_t rank, std::size_t piece) const {
    const Range part = part_of(rank);
    const std::size_t first = part.first + piece * kPiece;
    return {first, std::min(first + kPiece, part.last)};
  }
  static std::span<U> cut(std::span<U> share, Range range) {
    return share.subspan(range.first, range.size());
  }

  void send(std::int32_t rank, std::span<const U> values) {
    open_.fetch_add(1);
    engine_.send(rank, channel_, std::as_bytes(values),
                 [self = this->shared_from_this()] { self->close_one(); });
  }

  /// To each rank what it sums of ours.
  void give_shares() {
    for (const std::int32_t rank : ranks_) {
      if (rank == me_) continue;
      for (std::size_t piece = 0; piece < pieces_of(rank); ++piece) {
        for (const std::span<U> share : shares_) send(rank, cut(share, piece_of(rank, piece)));
      }
    }
  }

  /// Waits for the others' shares of a piece of ours, adds, and goes on with the next.
  void add_next(std::size_t piece) {
    if (piece == pieces_of(me_)) return take_sums();
    const Range range = piece_of(me_, piece);
    missing_.store(1);
    for (std::size_t member = 0; member < order_.size(); ++member) {
      if (order_[member] == me_) continue;
      missing_.fetch_add(1);
      arrived_[member].resize(range.size());
      engine_.receive(
          order_[member], channel_, std::as_writable_bytes(std::span(arrived_[member])),
          [self = this->shared_from_this(), piece](MessageEngine::Time) { self->have_one(piece); });
    }
    have_one(piece);
  }
  void have_one(std::size_t piece) {
    if (missing_.fetch_sub(1) != 1) return;
    add(piece_of(me_, piece));
    add_next(piece + 1);
  }

  void add(Range range) {
    std::vector<U> sum(range.size());
    std::size_t mine = 0;
    for (std::size_t member = 0; member < order_.size(); ++member) {
      const std::span<const U> share =
          order_[member] == me_ ? cut(shares_[mine++], range) : std::span<U>(arrived_[member]);
      if (member == 0) {
        std::ranges::copy(share, sum.begin());
      } else {
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share[i];
      }
    }
    for (const std::span<U> share : shares_) std::ranges::copy(sum, cut(share, range).begin());
    for (const std::int32_t rank : ranks_) {
      if (rank != me_) send(rank, cut(shares_.front(), range));
    }
  }

  /// What the other ranks have summed.
  void take_sums() {
    for (const std::int32_t rank : ranks_) {
      if (rank == me_) continue;
      for (std::size_t piece = 0; piece < pieces_of(rank); ++piece) {
        const Range range = piece_of(rank, piece);
        open_.fetch_add(1);
        engine_.receive(rank, channel_, std::as_writable_bytes(cut(shares_.front(), range)),
                        [self = this->shared_from_this(), range](MessageEngine::Time) {
                          self->hand_on(range);
                        });
      }
    }
    close_one();
  }
  void hand_on(Range range) {
    for (std::size_t i = 1; i < shares_.size(); ++i)
      std::ranges::copy(cut(shares_.front(), range), cut(shares_[i], range).begin());
    close_one();
  }

  void close_one() {
    if (open_.fetch_sub(1) == 1) ended_();
  }

  MessageEngine& engine_;
  const std::size_t channel_;
  const std::int32_t me_;
  const std::vector<std::int32_t> order_;
  const std::vector<std::span<U>> shares_;
  const Ended ended_;
  std::vector<std::int32_t> ranks_;      // ascending, each once
  std::vector<std::vector<U>> arrived_;  // of each member elsewhere, of the piece at hand
  std::atomic<std::size_t> missing_{0};  // of the piece at hand
  std::atomic<std::int64_t> open_{1};    // sends and receives of sums; 1: it has not come to those
};

}  // namespace tandem
