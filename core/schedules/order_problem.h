#pragma once
// What the schedule search orders: one batch of a line of devices, a stage each. Microbatches are
// alike, so that those of a kind may as well run in their order on every device (search/README.md):
// a device's order is a word of letters.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/schedule/schedule.h"

namespace tandem {

/// The ops that are ordered. `whole` is a whole backward, which only the named schedules have.
enum class Letter : std::uint8_t { forward, input, weight, whole };
inline constexpr std::size_t kLetters = 3;  // that searched words are made of

using Word = std::vector<Letter>;
using Words = std::vector<Word>;  // of each device

struct OrderProblem {
  struct Device {
    std::array<std::int64_t, kLetters> times{};  // ns
    std::int64_t after = 0;                      // ns: of the update, after the last op
    std::int64_t to_next = 0;                    // ns: of a transfer to or from the next device
    std::int64_t kept = 0;                       // of an activation between I and W, as `cap`
    std::int64_t cap = 0;                        // kActivation is one
  };
  std::int32_t microbatches = 1;
  bool shared_links = true;  // a transfer occupies its link, as on shared lanes
  std::vector<Device> devices;

  /// What a device holds after so many ops of each kind.
  std::int64_t held(std::size_t device, const std::array<std::int32_t, kLetters>& done) const;
};

/// REQUIRES: a request that the row `search` accepts.
OrderProblem order_problem(const ScheduleRequest& request);

/// Whether a device's word has each op of each microbatch, none before what it needs of its own
/// device, and keeps the cap.
bool is_possible(const OrderProblem& problem, std::size_t device, const Word& word);

/// The words of an order of `problem`'s shape. Empty: it is of another.
std::optional<Words> words_of(const Schedule& schedule);
/// The same words with every backward in its two halves: never slower, and hold no more.
Words split(const Words& words);
Schedule schedule_of(const ScheduleRequest& request, const Words& words);

}  // namespace tandem
