#include "tools/print/event_file.h"

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "core/text/output_place.h"

namespace tandem::tools {

namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t bits = byte;
    for (int i = 0; i < 8; ++i) bits = bits >> 1u ^ ((bits & 1u) != 0 ? 0x82F63B78u : 0u);
    table[byte] = bits;
  }
  return table;
}

constexpr auto kCrcTable = crc_table();

template <class T>
void append_bytes(std::string& to, T value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  to.append(bytes.data(), bytes.size());
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u;
}

std::string record_of(std::string_view message) {
  std::string record;
  append_bytes(record, std::uint64_t{message.size()});
  append_bytes(record, masked_crc(record));
  record += message;
  append_bytes(record, masked_crc(message));
  return record;
}

// Protocol buffers: a field is its number and its kind of content, then that.
enum class WireType : std::uint8_t { varint = 0, eight_bytes = 1, counted = 2, four_bytes = 5 };

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7u) to.push_back(static_cast<char>(value | 0x80u));
  to.push_back(static_cast<char>(value));
}

void append_key(std::string& to, std::uint32_t field, WireType type) {
  append_varint(to, field << 3u | static_cast<std::uint32_t>(type));
}

void append_counted(std::string& to, std::uint32_t field, std::string_view content) {
  append_key(to, field, WireType::counted);
  append_varint(to, content.size());
  to += content;
}

std::string event_at(double wall_time) {
  std::string event;
  append_key(event, 1, WireType::eight_bytes);
  append_bytes(event, wall_time);
  return event;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TensorBoard takes any name with "tfevents" in it, and reads those of a folder in their order.
std::string new_path(const std::string& folder) {
  make_folder(folder);
  static std::atomic<int> count = 0;
  const std::string name =
      fmt::format("events.out.tfevents.{:010.0f}.tandem.{}.{}", seconds_now(), ::getpid(), count++);
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes)
    crc = crc >> 8u ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFu];
  return ~crc;
}

EventFile::EventFile(const std::string& folder) : path_(new_path(folder)), file_(path_) {
  std::string event = event_at(seconds_now());
  append_counted(event, 3, "brain.Event:2");
  file_.write(record_of(event));
}

void EventFile::write(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_counted(value, 1, scalar.tag);
    append_key(value, 2, WireType::four_bytes);
    append_bytes(value, static_cast<float>(scalar.value));
    append_counted(summary, 1, value);
  }
  std::string event = event_at(wall_time);
  append_key(event, 2, WireType::varint);
  append_varint(event, static_cast<std::uint64_t>(step));
  append_counted(event, 5, summary);
  file_.write(record_of(event));
}

}  // namespace tandem::tools
