#include "core/text/temporaries.h"

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

std::array<Slot, 16> temporary_slots;  // more files at once are not removed by a signal

std::size_t take_slot(const std::string& path) {
  for (std::size_t i = 0; i < temporary_slots.size(); ++i) {
    State expected = State::free;
    if (path.size() >= temporary_slots[i].path.size()) continue;
    if (!temporary_slots[i].state.compare_exchange_strong(expected, State::being_filled)) continue;
    std::memcpy(temporary_slots[i].path.data(), path.c_str(), path.size() + 1);
    temporary_slots[i].state.store(State::named);
    return i;
  }
  return temporary_slots.size();
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
  if (slot_ < temporary_slots.size()) temporary_slots[slot_].state.store(State::free);
}

void remove_temporaries() noexcept {
  for (const Slot& slot : temporary_slots) {
    if (slot.state.load() == State::named) ::unlink(slot.path.data());
  }
}

}  // namespace tandem
