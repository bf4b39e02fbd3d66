#pragma once
// Strong ids: scoped enums used as typed indices. No conversion, no arithmetic, no code. Each
// counts from 0; index() and id_at() go from an id to its number and back.

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tandem {

/// Consecutive layers, a position along the model; 0 takes the input.
enum class StageId : std::uint16_t {};
/// One instance of a stage, on one device.
enum class ReplicaId : std::uint16_t {};
/// What computes, of one pipeline.
enum class DeviceId : std::uint16_t {};
/// One in-order queue of one device; a CUDA stream, when real.
enum class LaneId : std::uint16_t {};
/// A price: a row of Program::cost_keys() and of a CostTable.
enum class CostId : std::uint32_t {};
/// The position in a program's one global order.
enum class InstructionId : std::uint32_t {};

/// Any of these.
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
