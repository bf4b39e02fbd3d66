#include "tools/options/rank_hosts.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "tools/cli/split.h"

namespace tandem::tools {

namespace {

constexpr std::int32_t kMostRanks = 65'536;

/// Nothing: the words are no host.
std::optional<RankHost> host_of(const std::vector<std::string_view>& words) {
  RankHost host{.name = std::string(words[0])};
  // ssh would take it for an option.
  if (host.name.starts_with('-') || words.size() > 2) return std::nullopt;
  if (words.size() == 1) return host;
  const auto [key, value] = halved(words[1], '=');
  const auto slots = number_in<std::int32_t>(value);
  if (key != "slots" || !slots || *slots < 1 || *slots > kMostRanks) return std::nullopt;
  host.slots = *slots;
  return host;
}

}  // namespace

std::vector<RankHost> parse_hosts(std::string_view text, const std::string& file) {
  std::vector<RankHost> hosts;
  std::vector<Diagnostic> faults;
  std::uint32_t number = 0;
  for (const std::string_view line : split(text, "\n")) {
    ++number;
    std::vector<std::string_view> words = split(line.substr(0, line.find('#')), " \t\r");
    std::erase(words, "");
    if (words.empty()) continue;
    std::optional<RankHost> host = host_of(words);
    if (host && std::ranges::find(hosts, host->name, &RankHost::name) == hosts.end()) {
      hosts.push_back(std::move(*host));
      continue;
    }
    const SourcePlace place{.file = file,
                            .line = number,
                            .column = 1,
                            .source_line = std::string(line),
                            .width = static_cast<std::uint32_t>(line.size())};
    faults.push_back({.message = host ? "the host stands in this file before"
                                      : "expected HOST [slots=K], one a line",
                      .place = place});
  }
  if (!faults.empty()) throw InputError(std::move(faults));
  if (hosts.empty()) throw InputError(file + ": names no host");
  return hosts;
}

std::vector<RankSeat> seats_on(const std::vector<RankHost>& hosts, std::int32_t ranks) {
  std::vector<RankSeat> seats;
  const std::int64_t slots =
      std::accumulate(hosts.begin(), hosts.end(), std::int64_t{0},
                      [](std::int64_t sum, const RankHost& host) { return sum + host.slots; });
  const std::int64_t all = ranks == 0 ? slots : ranks;
  if (all > std::min<std::int64_t>(slots, kMostRanks))
    throw InputError(fmt::format("{} ranks are more than the hosts have slots: {}", all, slots));
  std::int64_t left = all;
  for (const RankHost& host : hosts) {
    const auto here = static_cast<std::int32_t>(std::min<std::int64_t>(left, host.slots));
    for (std::int32_t i = 0; i < here; ++i) seats.push_back({host.name, i, here});
    left -= here;
  }
  return seats;
}

std::string this_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

bool is_this_host(const std::string& name) {
  return name == "localhost" || name == "::1" || name.starts_with("127.") || name == this_host();
}

}  // namespace tandem::tools
