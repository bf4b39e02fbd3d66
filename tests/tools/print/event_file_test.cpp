// Event files, read by a reader that shares no code with the writer: records, checksums bit by bit,
// and fields. read_by_tensorboard.py reads the same with TensorBoard itself.

#include "tools/print/event_file.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tools/tandem.h"

namespace tandem::testing {
namespace {

/// The remainder of the bits, lowest first, by the polynomial 0x1EDC6F41.
std::uint32_t checksum(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = static_cast<unsigned char>(byte) >> bit & 1u;
      const bool out = ((crc ^ in) & 1u) != 0;
      crc >>= 1u;
      if (out) crc ^= 0x82F63B78;
    }
  }
  return ~crc;
}

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool has_checksum(std::string_view bytes, std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xA282EAD8u;
  return checksum(bytes) == (rotated << 15u | rotated >> 17u);
}

/// The messages of a file; of one that is broken those before.
std::vector<std::string> messages_in(std::string_view file) {
  std::vector<std::string> messages;
  while (file.size() >= 16) {
    const auto size = number_at<std::uint64_t>(file, 0);
    if (!has_checksum(file.substr(0, 8), number_at<std::uint32_t>(file, 8))) break;
    if (size > file.size() - 16) break;
    const std::string_view message = file.substr(12, size);
    if (!has_checksum(message, number_at<std::uint32_t>(file, 12 + size))) break;
    messages.emplace_back(message);
    file.remove_prefix(16 + size);
  }
  return messages;
}

std::uint64_t varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

/// Field numbers and contents, of numbers their bytes.
std::multimap<std::uint64_t, std::string> fields_of(std::string_view message) {
  std::multimap<std::uint64_t, std::string> fields;
  while (!message.empty()) {
    const std::uint64_t key = varint(message);
    std::size_t size = 0;
    if (key % 8 == 0) {
      const std::uint64_t value = varint(message);
      fields.emplace(key / 8, std::to_string(value));
      continue;
    }
    if (key % 8 == 1) size = 8;
    if (key % 8 == 5) size = 4;
    if (key % 8 == 2) size = varint(message);
    EXPECT_LE(size, message.size());
    fields.emplace(key / 8, message.substr(0, size));
    message.remove_prefix(std::min(size, message.size()));
  }
  return fields;
}

struct Event {
  double wall_time = 0.0;
  std::int64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

Event event_of(std::string_view message) {
  Event event;
  for (const auto& [field, content] : fields_of(message)) {
    if (field == 1) event.wall_time = number_at<double>(content, 0);
    if (field == 2) event.step = std::stoll(content);
    if (field == 3) event.version = content;
    if (field != 5) continue;
    for (const auto& [one, value] : fields_of(content)) {
      const auto parts = fields_of(value);
      EXPECT_EQ(one, 1u);
      event.scalars[parts.find(1)->second] = number_at<float>(parts.find(2)->second, 0);
    }
  }
  return event;
}

std::vector<Event> events_in(const std::filesystem::path& folder) {
  std::vector<Event> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_NE(entry.path().string().find("tfevents"), std::string::npos);
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& message : messages_in(bytes)) events.push_back(event_of(message));
  }
  return events;
}

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(tools::crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(tools::crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(tools::crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(checksum("123456789"), 0xE3069283u);
}

using EventFiles = CommandLine;

TEST_F(EventFiles, HoldWhatWasWritten) {
  const auto folder = std::filesystem::path(this->folder()) / "a/b";
  tools::EventFile file(folder.string());
  file.write(12.5, 300, std::array<tools::Scalar, 2>{{{"loss", 0.1}, {"rate", -2e30}}});
  const std::vector<Event> events = events_in(folder);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].wall_time, 12.5);
  EXPECT_EQ(events[1].step, 300);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"loss", 0.1f}, {"rate", -2e30f}}));
  // The control: of a file with one bit flipped the reader takes less.
  std::ifstream in(file.path(), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(bytes[i] ^ 4);
    EXPECT_LT(messages_in(bytes).size(), 2u) << i;
    bytes[i] = static_cast<char>(bytes[i] ^ 4);
  }
}

TEST_F(EventFiles, OfARunHoldWhatItsLogHolds) {
  write("model.json", kModel);
  write("plan.json", plan_text());
  const Ran ran =
      tandem("train plan.json --steps 6 --validate-every 3 --log run.jsonl --tensorboard events");
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::vector<Json> lines;
  std::ifstream log(std::filesystem::path(folder()) / "run.jsonl");
  for (std::string line; std::getline(log, line);) lines.push_back(Json::parse(line));
  std::vector<Event> steps, judged;
  for (const Event& event : events_in(std::filesystem::path(folder()) / "events")) {
    if (event.scalars.contains("loss")) steps.push_back(event);
    if (event.scalars.contains("validation_loss")) judged.push_back(event);
  }
  ASSERT_EQ(lines.size(), 6u);
  ASSERT_EQ(steps.size(), 6u);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].step, lines[i]["step"]);
    EXPECT_EQ(steps[i].scalars.size(), 5u);
    for (const auto& [tag, value] : steps[i].scalars)
      EXPECT_EQ(value, lines[i][tag].get<float>()) << tag;
  }
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_EQ(judged[1].step, 6);
  EXPECT_EQ(judged[1].scalars["validation_loss"], lines[5]["validation_loss"].get<float>());
}

TEST_F(EventFiles, ThatCannotBeWrittenEndTheRunBeforeItBegins) {
  write("model.json", kModel);
  write("plan.json", plan_text());
  write("events", "a file");
  const Ran ran = tandem("train plan.json --steps 2 --tensorboard events");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("events: "));
}

}  // namespace
}  // namespace tandem::testing
