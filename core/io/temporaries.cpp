#include "core/io/temporaries.h"

#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include <unistd.h>

namespace tandem {
namespace {

enum class State : int { free, being_filled, named };

/// A path where a signal's handler may read it: never freed, and complete while it is `named`.
struct Slot {
  std::atomic<State> state{State::free};
  std::array<char, 4096> path{};
};
static_assert(std::atomic<State>::is_always_lock_free);

std::array<Slot, 16> slots;  // more files at once are not removed by a signal

std::size_t take_slot(const std::string& path) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    State expected = State::free;
    if (path.size() >= slots[i].path.size()) continue;
    if (!slots[i].state.compare_exchange_strong(expected, State::being_filled)) continue;
    std::memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
    slots[i].state.store(State::named);
    return i;
  }
  return slots.size();
}

}  // namespace

Temporary::Temporary(std::string path) : path_(std::move(path)), slot_(take_slot(path_)) {}

Temporary::~Temporary() {
  if (kept_) return;
  ::unlink(path_.c_str());
  forget();
}

void Temporary::forget() {
  kept_ = true;
  if (slot_ < slots.size()) slots[slot_].state.store(State::free);
}

void remove_temporaries() noexcept {
  for (const Slot& slot : slots) {
    if (slot.state.load() == State::named) ::unlink(slot.path.data());
  }
}

}  // namespace tandem
