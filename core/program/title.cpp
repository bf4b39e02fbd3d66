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
  std::string text = words(name(lane.kind));
  using enum LaneKind;
  switch (lane.kind) {
    case compute:
    case collective:
      return text;
    case send_activation:
    case send_gradient:
    case send_stash:
      return fmt::format("{} to {}", text, index(lane.peer));
    case receive_activation:
    case receive_gradient:
    case receive_stash:
      return fmt::format("{} from {}", text, index(lane.peer));
  }
  return text;
}

}  // namespace tandem
