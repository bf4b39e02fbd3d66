#pragma once
// MPI as ranks use it: a module beside the program, libtandem_mpi.so, which is loaded when a run
// asks for it, as no other command needs a library of MPI, nor the time that it takes to load.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/backend/notice.h"
#include "executor/ranks/fault.h"
#include "executor/ranks/message_engine.h"

namespace tandem {

struct MpiEngineSetup {
  std::int32_t rank = 0, ranks = 1;        // which must be MPI's, too
  std::vector<std::string> channels = {};  // by number: what messages call them
  /// Called once, by a thread of the engine: why MPI could not be started, or nothing.
  std::function<void(const std::string& why)> on_start = {};
  Notice on_failure = {};           // maybe more than once, by any thread
  FaultInjector* faults = nullptr;  // null: there are none
};

/// What the module gives.
class MpiModule {
 public:
  MpiModule() = default;
  virtual ~MpiModule() = default;
  MpiModule(const MpiModule&) = delete;
  MpiModule& operator=(const MpiModule&) = delete;

  /// "Open MPI v4.1.4".
  virtual std::string version() const = 0;
  /// Starts MPI, which a process can but once, and waits for nothing: see `on_start`. One engine at
  /// a time.
  virtual std::unique_ptr<MessageEngine> make(MpiEngineSetup setup) = 0;
};

/// The module, or why there is none here.
struct FoundMpi {
  MpiModule* module = nullptr;
  std::string why_absent = {};
};
/// Loads it, the first time.
const FoundMpi& find_mpi();

}  // namespace tandem
