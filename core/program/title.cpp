#include "core/program/title.h"

#include <algorithm>

#include <fmt/format.h>

namespace tandem {
namespace {

/// "F", "send activation": up to the number. Viewers colour by it.
std::string title_of(OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return "F";
    case OpKind::recompute:
      return "R";
    case OpKind::backward:
      return "B";
    case OpKind::backward_input:
      return "I";
    case OpKind::backward_weight:
      return "W";
    case OpKind::update:
      return "U";
    case OpKind::validate:
      return "V";
    case OpKind::send_activation:
    case OpKind::send_gradient:
    case OpKind::evict:
    case OpKind::load:
    case OpKind::reduce_tied:
    case OpKind::reduce_gradient:
    case OpKind::reduce_norm:
      return words(name(kind));
  }
  return {};
}

}  // namespace

std::string words(std::string_view identifier) {
  std::string text(identifier);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string title_of(const Program& program, const WeightVersions& versions,
                     const Instance& instance, LaneKind lane) {
  const OpKind kind = program[instance.id].op.kind;
  const std::int64_t number =
      kind == OpKind::update ? versions(instance).value_or(0) : instance.microbatch;
  std::string text = fmt::format("{} {}", title_of(kind), number);
  if (lane == LaneKind::receive_activation || lane == LaneKind::receive_gradient)
    text.replace(0, std::string_view("send").size(), "receive");
  return text;
}

}  // namespace tandem
