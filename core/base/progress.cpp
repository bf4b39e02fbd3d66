#include "core/base/progress.h"

#include <utility>

namespace tandem {

namespace {

ProgressListener* listener = nullptr;
thread_local const std::function<bool()>* stop_when = nullptr;

}  // namespace

void keep_going() {
  if (stop_when != nullptr) {
    if (*stop_when && (*stop_when)()) throw EndedEarly();
  } else if (listener != nullptr) {
    listener->keep_going();
  }
}

Activity::Activity(const std::string& what, std::int64_t steps) {
  if (listener != nullptr) listener->began(*this, what, steps);
}

Activity::~Activity() {
  if (listener != nullptr) listener->ended(*this);
}

void Activity::step(std::int64_t more) const {
  if (listener != nullptr) listener->stepped(*this, more);
  keep_going();
}

void Activity::say(const std::function<std::string()>& words) const {
  if (listener != nullptr) listener->said(*this, words);
}

StopWhen::StopWhen(const std::function<bool()>& stop) : before_(std::exchange(stop_when, &stop)) {}

StopWhen::~StopWhen() { stop_when = before_; }

void listen_to_progress(ProgressListener* who) { listener = who; }

}  // namespace tandem
