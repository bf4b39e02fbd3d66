#pragma once
// Strong ids: scoped enums used as typed indices. No conversion, no arithmetic, no code.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tandem {

enum class StageId : std::uint16_t {};  // a part of the model on one device
enum class PartId : std::uint16_t {};   // position along the model; 0 takes the input
enum class DeviceId : std::uint16_t {};
enum class LaneId : std::uint16_t {};  // one in-order queue of one device; a CUDA stream, when real
enum class CostId : std::uint32_t {};
enum class InstructionId : std::uint32_t {};

template <class Id>
concept StrongId = std::is_enum_v<Id>;

/// The position that `id` names in a Table.
template <StrongId Id>
constexpr std::size_t index(Id id) {
  return static_cast<std::size_t>(id);
}

/// The id of position `position`. REQUIRES: position fits the id's underlying type.
template <StrongId Id>
constexpr Id id_at(std::size_t position) {
  return static_cast<Id>(position);
}

}  // namespace tandem
