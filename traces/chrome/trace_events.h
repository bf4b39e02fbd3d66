#pragma once
// Reads the events of a Chrome trace one by one: any size of file, little memory. Internal to
// traces/.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "traces/chrome/trace_source.h"

namespace tandem {

struct TraceLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;  // uncompressed: a small .gz may hold a lot
  std::size_t depth = 64;                        // of nesting
  std::size_t values = 100'000;                  // in one event
};

/// Gets each element of the array of events; `position` counts from 0.
using EventVisitor = std::function<void(std::size_t position, const nlohmann::json& event)>;

/// What stands around the events.
struct TraceFrame {
  nlohmann::json metadata;  // the member of that name, or null
  std::string time_unit;    // "displayTimeUnit"; empty where it is not text
  bool has_events = false;  // there is an array of events: the document itself, or /traceEvents
  bool bare = false;        // the document itself
  std::size_t events = 0;
  std::optional<Diagnostic>
      damage;  // the content could not be read on: damaged, not JSON, beyond a limit
};

/// A file may be compressed (told by its content). Both the bare array and the object form
/// are read. Throws InputError when the file can't be opened; whatever is wrong with the content is
/// returned.
TraceFrame read_trace_events(const TraceSource& source, const EventVisitor& visit,
                             const TraceLimits& limits = {});

/// What `reader` makes of a trace: its event() gets each event, its finish() what stands around
/// them.
template <class Reader>
auto read_trace(Reader&& reader, const TraceSource& source) {
  const EventVisitor visit = [&reader](std::size_t position, const nlohmann::json& event) {
    reader.event(position, event);
  };
  return reader.finish(read_trace_events(source, visit));
}

/// A trace's time, in microseconds, as whole nanoseconds (exact for three decimals and less than
/// 100 days). Empty when it is no number, not finite or beyond 292 years.
std::optional<std::int64_t> trace_nanoseconds(const nlohmann::json& value);

}  // namespace tandem
