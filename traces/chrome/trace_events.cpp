#include "traces/chrome/trace_events.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <istream>
#include <memory>
#include <span>
#include <streambuf>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "traces/chrome/compressed_file.h"

namespace tandem {
namespace {

using nlohmann::json;

/// Leaves the parser; never leaves this file.
struct Damage {
  Diagnostic diagnostic;
};

[[noreturn]] void fail(const std::string& file, const std::string& message,
                       const std::string& pointer = "") {
  throw Damage{{.message = message, .place = {.file = file, .pointer = pointer}}};
}

/// Bytes for the parser, to which a NUL is the end: here it is an error, with its place.
class TraceBytes : public std::streambuf {
 public:
  /// Returns none at the end; they stay until it is called again.
  using Next = std::function<std::span<char>()>;
  TraceBytes(std::string name, Next next) : name_(std::move(name)), next_(std::move(next)) {}

 protected:
  int_type underflow() override {
    for (const char* at = eback(); at != egptr(); ++at) {
      column_ = *at == '\n' ? 1 : column_ + 1;
      line_ += *at == '\n' ? 1 : 0;
    }
    const std::span<char> bytes = held_.empty() ? next_() : std::exchange(held_, {});
    const auto nul = static_cast<std::size_t>(std::ranges::find(bytes, '\0') - bytes.begin());
    if (nul == 0 && !bytes.empty()) {
      throw Damage{{.message = "not valid JSON: a NUL byte (U+0000)",
                    .place = {.file = name_, .line = line_, .column = column_}}};
    }
    // What stands before it has errors of its own, which come first.
    held_ = bytes.subspan(nul);
    setg(bytes.data(), bytes.data(), bytes.data() + nul);
    return bytes.empty() ? traits_type::eof() : traits_type::to_int_type(bytes.front());
  }

 private:
  std::string name_;
  Next next_;
  std::uint32_t line_ = 1, column_ = 1;  // of what comes next
  std::span<char> held_;                 // from a NUL on
};

/// The bytes of a file, uncompressed, up to a limit.
TraceBytes::Next bytes_of_file(const std::string& path, std::uint64_t limit) {
  return [file = std::make_shared<CompressedFile>(path), bytes = std::vector<char>(1 << 16), path,
          limit, left = limit]() mutable {
    std::size_t size = 0;
    try {
      size = file->read(bytes.data(), bytes.size());
    } catch (const UnreadableBytes& error) {
      fail(path, fmt::format("cannot read: {}", error.reason));
    }
    if (size > left) fail(path, fmt::format("more than {} bytes", limit));
    left -= size;
    return std::span(bytes).first(size);
  };
}

/// Builds one event at a time and forgets it once visited; skips what is neither event nor
/// metadata.
class EventReader : public nlohmann::json_sax<json> {
 public:
  EventReader(std::string name, const EventVisitor& visit, const TraceLimits& limits)
      : name_(std::move(name)), visit_(visit), limits_(limits) {}

  TraceFrame take() { return std::move(frame_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override {
    if (root_is_object_ && depth_ == 1 && key_ == "displayTimeUnit") frame_.time_unit = value;
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return true; }  // not in JSON

  bool start_object(std::size_t) override {
    if (depth_ == 0) root_is_object_ = true;
    return open(json::object());
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0 || (depth_ == 1 && root_is_object_ && key_ == "traceEvents")) {
      frame_.has_events = true;
      frame_.bare = depth_ == 0;
      events_depth_ = depth_ + 1;
    }
    return open(json::array());
  }
  bool key(string_t& name) override {
    if (depth_ == 1)
      key_ = name;
    else
      keys_.back() = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    const std::string text = error.what();
    unsigned line = 0, column = 0;
    const std::size_t at = text.find("at line ");
    if (at != std::string::npos &&
        std::sscanf(text.c_str() + at, "at line %u, column %u", &line, &column) != 2)
      line = column = 0;
    const std::size_t colon = at == std::string::npos ? text.find("] ") : text.find(": ", at);
    std::string reason = colon == std::string::npos ? text : text.substr(colon + 2);
    reason.resize(std::min(reason.size(), reason.find("; last read")));  // may hold any bytes
    throw Damage{{.message = "not valid JSON: " + reason,
                  .place = {.file = name_, .line = line, .column = column}}};
  }

 private:
  /// A value that begins at `depth_` is to be kept: an event, or metadata.
  bool is_event() const { return events_depth_ != 0 && depth_ == events_depth_; }
  bool is_metadata() const { return root_is_object_ && depth_ == 1 && key_ == "metadata"; }
  std::string pointer() const {
    if (!root_is_object_) return fmt::format("/{}", frame_.events);
    return key_ == "traceEvents" ? fmt::format("/traceEvents/{}", frame_.events) : "/" + key_;
  }

  bool add(json value) {
    json* placed = place(std::move(value));
    if (placed != nullptr && stack_.empty()) finish();
    return true;
  }

  bool open(json value) {
    if (depth_ >= limits_.depth) fail(name_, "nested too deeply", pointer());
    json* placed = place(std::move(value));
    ++depth_;
    keys_.emplace_back();
    if (placed != nullptr) stack_.push_back(placed);
    return true;
  }

  bool close() {
    if (is_event()) events_depth_ = 0;
    --depth_;
    keys_.pop_back();
    if (stack_.empty()) return true;
    stack_.pop_back();
    if (stack_.empty()) finish();
    return true;
  }

  /// Where the value now lies, or null when it is skipped.
  json* place(json value) {
    if (stack_.empty()) {
      if (!is_event() && !is_metadata()) return nullptr;
      values_ = 0;
      top_ = std::move(value);
      return &top_;
    }
    if (++values_ > limits_.values) fail(name_, "holds too many values", pointer());
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[keys_.back()] = std::move(value));
  }

  void finish() {
    if (is_event())
      visit_(frame_.events++, top_);
    else
      frame_.metadata = std::move(top_);
    top_ = nullptr;
  }

  std::string name_;
  const EventVisitor& visit_;
  TraceLimits limits_;
  TraceFrame frame_;
  bool root_is_object_ = false;
  std::size_t depth_ = 0;          // containers open
  std::size_t events_depth_ = 0;   // inside the array of events; 0: not in it
  std::size_t values_ = 0;         // in top_
  std::string key_;                // of the document's object
  std::vector<std::string> keys_;  // of each open container, the key being filled
  json top_;
  std::vector<json*> stack_;  // open containers inside top_
};

}  // namespace

TraceFrame read_trace_events(const TraceSource& source, const EventVisitor& visit,
                             const TraceLimits& limits) {
  const auto text = [rest = source.text.value_or("")]() mutable {
    const std::string_view all = std::exchange(rest, {});
    // streambuf's interface; nothing writes
    return std::span<char>(const_cast<char*>(all.data()), all.size());
  };
  TraceBytes bytes(source.name,
                   source.text ? TraceBytes::Next(text) : bytes_of_file(source.name, limits.bytes));
  std::istream stream(&bytes);
  EventReader reader(source.name, visit, limits);
  std::optional<Diagnostic> damage;
  try {
    json::sax_parse(stream, &reader);
  } catch (const Damage& found) {
    damage = found.diagnostic;
  }
  TraceFrame frame = reader.take();
  frame.damage = damage;
  return frame;
}

std::optional<std::int64_t> trace_nanoseconds(const json& value) {
  constexpr double kLargest = 9.2e15;  // microseconds in an int64 of nanoseconds
  if (!value.is_number()) return std::nullopt;
  const double microseconds = value.get<double>();
  if (!std::isfinite(microseconds) || std::abs(microseconds) > kLargest) return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>() * 1000;
  return std::llround(microseconds * 1000);
}

}  // namespace tandem
