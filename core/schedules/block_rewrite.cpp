// Filling and draining as the authors of Pipeline Parallelism with Controllable Memory (arXiv
// 2405.15362) write them. What is idle then is filled from behind.

#include <deque>
#include <utility>

#include "core/schedules/building_block.h"

namespace tandem {

namespace {

using Counts = std::array<std::size_t, kVOps>;
/// Slots of a device's ops, by kind and microbatch.
using Places = std::array<std::vector<std::size_t>, kVOps>;

std::size_t activations_of(const VGrid& grid) {
  return static_cast<std::size_t>(highest_peak(grid));
}

/// False: the slot is taken.
bool put(VRow& row, std::size_t slot, VOp op) {
  if (slot >= row.size()) row.resize(slot + 1, VOp::idle);
  if (row[slot] != VOp::idle) return false;
  row[slot] = op;
  return true;
}

/// The source of a leg, or the backward of a weight gradient.
VSource source_of_any(std::size_t device, VOp op, std::size_t devices) {
  if (is_leg(op)) return source_of(device, op, devices);
  return {device, op == VOp::weight_down ? VOp::backward_down : VOp::backward_up};
}

/// Whether every leg has all its microbatches, each behind its source, and every weight gradient
/// stands behind its backward.
bool is_right(const VGrid& grid, std::size_t m) {
  const std::size_t p = grid.size();
  std::vector<Places> places(p);
  for (std::size_t i = 0; i < p; ++i) {
    for (std::size_t slot = 0; slot < grid[i].size(); ++slot) {
      if (grid[i][slot] != VOp::idle) places[i][index(grid[i][slot])].push_back(slot);
    }
    for (const std::vector<std::size_t>& of : places[i]) {
      if (of.size() != m) return false;
    }
  }
  for (std::size_t i = 0; i < p; ++i) {
    for (std::size_t op = 0; op < kVOps; ++op) {
      const VSource source = source_of_any(i, static_cast<VOp>(op), p);
      if (source.op == VOp::idle) continue;
      for (std::size_t k = 0; k < m; ++k) {
        if (places[i][op][k] <= places[source.device][index(source.op)][k]) return false;
      }
    }
  }
  return true;
}

/// Before the first backward of the first chunk: as many forwards of both chunks as the peak, then
/// backward, weight gradient and forward in turns.
bool rewrite_filling(VGrid& grid, std::size_t m) {
  const std::size_t p = grid.size(), peak = std::min(activations_of(grid), 2 * p);
  for (std::size_t i = 0; i < p; ++i) {
    VRow& row = grid[i];
    Counts left{};
    for (VOp& op : row) {
      if (op == VOp::backward_up) break;
      if (op != VOp::idle) ++left[index(op)];
      op = VOp::idle;
    }
    const std::size_t ups = std::min({i + 1, peak / 2, m}), downs = std::min(peak - ups, m);
    std::size_t slot = i, put_ups = 0, put_downs = 0;
    bool good = true;
    const auto take = [&](VOp op) {
      if (left[index(op)] == 0) return false;
      --left[index(op)];
      good = put(row, slot, op) && good;
      return true;
    };
    const auto go_down = [&] { put_downs += put_downs < downs && take(VOp::forward_down); };
    for (std::size_t k = 0; k < 2 * (p - 1 - i); ++k, ++slot) go_down();
    for (std::size_t k = 0; k <= i; ++k) {
      go_down();
      ++slot;
      put_ups += put_ups < ups && take(VOp::forward_up);
      ++slot;
    }
    while (left != Counts{} && good) {
      take(VOp::backward_down), ++slot;
      if (!take(VOp::weight_down)) take(VOp::weight_up);
      ++slot;
      if (!take(VOp::forward_up)) take(VOp::forward_down);
      ++slot;
    }
    if (!good) return false;
  }
  return true;
}

void keep_first(VGrid& grid, std::size_t m) {
  for (VRow& row : grid) {
    Counts seen{};
    for (VOp& op : row) {
      if (op != VOp::idle && ++seen[index(op)] > m) op = VOp::idle;
    }
  }
}

/// With few microbatches memory is left: the first weight gradients go to the end.
void delay_weights(VGrid& grid, std::size_t peak) {
  for (VRow& row : grid) {
    std::size_t held = static_cast<std::size_t>(peak_of(row));
    VRow later;
    for (VOp& op : row) {
      if (held >= peak) break;
      if (!is_weight(op)) continue;
      later.push_back(std::exchange(op, VOp::idle));
      ++held;
    }
    row.insert(row.end(), later.begin(), later.end());
  }
}

/// Takes the last `most_downs` and `most_ups` backwards of a row away, and of the last weight
/// gradients theirs and in all `held`; how many backwards of each kind it took.
std::pair<std::size_t, std::size_t> clear_tail(VRow& row, std::size_t most_downs,
                                               std::size_t most_ups, std::size_t held) {
  std::size_t downs = 0, ups = 0, weights_down = 0, weights_up = 0;
  std::for_each(row.rbegin(), row.rend(), [&](VOp& op) {
    const bool takes_down = op == VOp::backward_down && downs < most_downs;
    const bool takes_up = op == VOp::backward_up && ups < most_ups;
    downs += takes_down;
    ups += takes_up;
    if (takes_down || takes_up) op = VOp::idle;
  });
  std::for_each(row.rbegin(), row.rend(), [&](VOp& op) {
    const bool enough =
        weights_down >= downs && weights_up >= ups && weights_down + weights_up >= held;
    if (enough || !is_weight(op)) return;
    ++(op == VOp::weight_down ? weights_down : weights_up);
    op = VOp::idle;
  });
  return {downs, ups};
}

/// Behind the last forward of the first device: backwards of the first chunk every second slot, as
/// many as half the peak, those of the second between them, and weight gradients in what is left.
bool rewrite_draining(VGrid& grid, std::size_t m) {
  const std::size_t p = grid.size(), peak = activations_of(grid);
  const std::size_t most_ups = std::min((peak + 1) / 2, m);
  const std::size_t most_downs = std::min(peak - most_ups, m);
  const auto last = std::find(grid[0].rbegin(), grid[0].rend(), VOp::forward_up);
  const std::size_t start = static_cast<std::size_t>(grid[0].rend() - last) - 1;
  for (std::size_t i = 0; i < p; ++i) {
    VRow& row = grid[i];
    const auto [downs, ups] = clear_tail(row, std::min(i + 1, most_downs), most_ups, peak);
    for (std::size_t k = 0; k < ups; ++k) {
      if (start + 2 * p < i + 2 * k) return false;
      if (!put(row, start + 2 * p - i - 2 * k, VOp::backward_up)) return false;
    }
    for (std::size_t k = 0; k < downs; ++k) {
      if (start + 1 + i < 2 * k) return false;
      if (!put(row, start + 1 + i - 2 * k, VOp::backward_down)) return false;
    }
    fill_with_weights(row);
  }
  return true;
}

/// From left to right, each idle slot takes the nearest op of the device whose source has ended,
/// unless that would raise the peak.
class Filling {
 public:
  explicit Filling(VGrid& grid)
      : grid_(grid), peak_(highest_peak(grid)), places_(grid.size()), held_(grid.size(), 0) {}

  void run() {
    std::size_t longest = 0;
    for (const VRow& row : grid_) longest = std::max(longest, row.size());
    for (std::size_t slot = 0; slot < longest; ++slot) {
      for (std::size_t i = 0; i < grid_.size(); ++i) {
        if (slot >= grid_[i].size()) continue;
        if (grid_[i][slot] == VOp::idle) fill(i, slot);
        const VOp op = grid_[i][slot];
        if (op == VOp::idle) continue;
        places_[i][index(op)].push_back(slot);
        held_[i] += held_by(op);
      }
    }
  }

 private:
  static std::int32_t held_by(VOp op) { return is_forward(op) ? 1 : is_weight(op) ? -1 : 0; }

  bool is_ready(std::size_t i, VOp op, std::size_t slot) const {
    const VSource source = source_of_any(i, op, grid_.size());
    if (source.op == VOp::idle) return true;
    const std::size_t microbatch = places_[i][index(op)].size();
    const std::vector<std::size_t>& sources = places_[source.device][index(source.op)];
    return microbatch < sources.size() && sources[microbatch] < slot;
  }

  void fill(std::size_t i, std::size_t slot) {
    VRow& row = grid_[i];
    unsigned seen = 0;  // kinds: only the next of each can move
    std::int32_t held = held_[i], most = held;
    for (std::size_t from = slot + 1; from < row.size() && seen != (1u << kVOps) - 1; ++from) {
      const VOp op = row[from];
      if (op == VOp::idle) continue;
      const std::int32_t before = most;
      held += held_by(op);
      most = std::max(most, held);
      if ((seen >> index(op) & 1u) != 0) continue;
      seen |= 1u << index(op);
      if ((is_forward(op) && before >= peak_) || !is_ready(i, op, slot)) continue;
      std::swap(row[slot], row[from]);
      return;
    }
  }

  VGrid& grid_;
  const std::int32_t peak_;
  std::vector<Places> places_;
  std::vector<std::int32_t> held_;
};

/// Weight gradients in the order of their backwards.
bool relabel(VRow& row) {
  std::deque<VOp> pending;
  for (VOp& op : row) {
    if (is_backward(op)) pending.push_back(weight_of(op));
    if (!is_weight(op)) continue;
    if (pending.empty()) return false;
    op = pending.front();
    pending.pop_front();
  }
  return true;
}

}  // namespace

std::optional<VGrid> rewritten(const Block& block, std::int32_t microbatches, std::int32_t cap) {
  const std::size_t p = block.size(), m = static_cast<std::size_t>(microbatches);
  const auto most = static_cast<std::size_t>(cap);
  // The filling phase is that of many microbatches; those that the batch hasn't are left out then.
  const std::size_t more = std::max(m, 2 * p);
  VGrid grid = repeated(block, static_cast<std::int32_t>(more));
  std::size_t peak = activations_of(grid);
  if (peak > 2 * p || (m == more && peak > most)) return std::nullopt;
  const auto squeeze = [&grid](std::size_t count) {
    if (!is_right(grid, count)) return false;
    grid = squeezed(grid, static_cast<std::int32_t>(count));
    return true;
  };
  const auto relabel_all = [&grid] { return std::all_of(grid.begin(), grid.end(), relabel); };
  if (!squeeze(more) || !rewrite_filling(grid, more) || !relabel_all()) return std::nullopt;
  if (!squeeze(more) || activations_of(grid) > peak) return std::nullopt;
  if (m < more) {
    keep_first(grid, m);
    if (m <= p && 2 * m <= most) delay_weights(grid, std::min(2 * p, activations_of(grid)));
    if (!squeeze(m)) return std::nullopt;
    peak = activations_of(grid);
    if (peak > most) return std::nullopt;
  }
  if (!rewrite_draining(grid, m) || !relabel_all() || !squeeze(m)) return std::nullopt;
  Filling(grid).run();
  if (!relabel_all()) return std::nullopt;
  if (!is_right(grid, m) || activations_of(grid) > peak) return std::nullopt;
  return grid;
}

}  // namespace tandem
