#include "core/program/title.h"

#include <algorithm>

#include <fmt/format.h>

namespace tandem {

std::string words(std::string_view identifier) {
  std::string text(identifier);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string title_of(const Program& program, const WeightVersions& versions,
                     const Instance& instance, LaneKind lane) {
  const OpKind kind = program[instance.id].op.kind;
  const std::string_view letter = traits(kind).letter;
  const std::int64_t number =
      makes_version(kind) ? versions(instance).value_or(0) : instance.microbatch;
  // Viewers colour by what stands before the number.
  std::string text =
      fmt::format("{} {}", letter.empty() ? words(name(kind)) : std::string(letter), number);
  if (lane == LaneKind::receive_activation || lane == LaneKind::receive_gradient)
    text.replace(0, std::string_view("send").size(), "receive");
  return text;
}

std::string title_of(const Lane& lane) {
  const std::string text = words(name(lane.kind));
  if (lane.kind == LaneKind::compute || lane.kind == LaneKind::collective) return text;
  return fmt::format("{} {} {}", text, text.starts_with("send") ? "to" : "from", index(lane.peer));
}

}  // namespace tandem
