#include "executor/ranks/device_ranks.h"

#include <charconv>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "core/base/error.h"

namespace tandem {

namespace {

/// Takes a number from the front of `text`.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

DeviceRanks even_device_ranks(std::size_t devices, std::int32_t ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (count > devices) {
    throw InputError(
        fmt::format("{} ranks for {} devices: each rank runs at least one", ranks, devices));
  }
  DeviceRanks of;
  for (std::size_t device = 0; device < devices; ++device)
    of.push_back(static_cast<std::int32_t>(((device + 1) * count - 1) / devices));
  return of;
}

DeviceRanks parse_device_ranks(std::string_view text, std::size_t devices, std::int32_t ranks) {
  constexpr std::int32_t kNone = -1;
  const std::string whole(text);
  const auto refuse = [&](const std::string& why) {
    throw InputError(
        fmt::format("ranks \"{}\": {}; \"0-1/2,3\" gives devices 0 and 1 to rank 0, "
                    "2 and 3 to rank 1",
                    whole, why));
  };
  DeviceRanks of(devices, kNone);
  std::int32_t rank = 0;
  while (true) {
    const auto first = take_number(text);
    if (!first)
      refuse(fmt::format("a device is missing at position {}", whole.size() - text.size()));
    std::size_t last = *first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      const auto end = take_number(text);
      if (!end || *end < *first) refuse(fmt::format("the range from {} has no end", *first));
      last = *end;
    }
    if (last >= devices) refuse(fmt::format("device {} of {}", last, devices));
    for (std::size_t device = *first; device <= last; ++device) {
      std::int32_t& owner = of[id_at<DeviceId>(device)];
      if (owner != kNone) refuse(fmt::format("device {} stands there twice", device));
      owner = rank;
    }
    if (text.empty()) break;
    if (!text.starts_with(',') && !text.starts_with('/'))
      refuse(fmt::format("unexpected \"{}\"", text.substr(0, 1)));
    if (text.front() == '/') ++rank;
    text.remove_prefix(1);
  }
  if (rank + 1 != ranks)
    refuse(fmt::format("devices of {} ranks, but there are {}", rank + 1, ranks));
  for (const DeviceId device : ids(of)) {
    if (of[device] == kNone) refuse(fmt::format("device {} is missing", index(device)));
  }
  return of;
}

}  // namespace tandem
