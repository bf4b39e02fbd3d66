#pragma once
// The backends: a row each of what trains, and of the transports by which its devices hand one
// another what they send. Nobody else knows a backend by its name.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory/storage.h"
#include "executor/cuda/cuda.h"
#include "executor/profile/profile.h"
#include "executor/run/training_setup.h"

namespace tandem {

struct BackendTraits {
  std::string_view name;               // of --backend
  std::span<const Storage> storages;   // that it offers
  std::string_view why_other_bits;     // than the serial reference's; empty: it keeps them
  bool on_host;                        // computes on this machine's processors, in its memory
  std::string (*why_absent)();         // here and now, or empty; null: it is never absent
  std::unique_ptr<Trainer> (*make)();  // throws AbsentError where it is absent
  MeasuredProfile (*measure)(ProfileRequest);  // likewise; `backend` is left to measure_on()

  bool offers(Storage storage) const;
  /// Empty: it is here.
  std::string reason_absent() const { return why_absent == nullptr ? std::string() : why_absent(); }
};

/// Those that a build may have, the default first.
std::span<const BackendTraits> backends();
std::vector<std::string> backend_names();
/// REQUIRES: one of those.
const BackendTraits& find_backend(std::string_view name);

/// The first one that does. REQUIRES: one does.
const BackendTraits& backend_offering(Storage storage);

/// Throws AbsentError, with the reason, where it is not here.
void check_present(const BackendTraits& backend);
/// Throws AbsentError likewise.
MeasuredProfile measure_on(const BackendTraits& backend, ProfileRequest request);

struct TransportTraits {
  std::string_view name;                // of --transport
  std::string_view backend;             // whose
  std::span<const Storage> storages;    // that it carries
  bool by_messages = false;             // TrainingSetup::by_messages
  bool within_process = true;           // between its devices
  bool between_ranks = false;           // and their devices
  bool by_launcher = false;             // ranks must have been started by one of MPI
  FoundLibrary (*library)() = nullptr;  // that it needs; null: none beside its backend
  void (*prepare)() = nullptr;          // the process, before all else; null: nothing is needed
};

/// A backend's default is its first one.
std::span<const TransportTraits> transports();
/// REQUIRES: one of those.
const TransportTraits& find_transport(std::string_view name);
/// Of those a machine has: backends that are here, and what they find.
std::vector<std::string> transports_here();

}  // namespace tandem
