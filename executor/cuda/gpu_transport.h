#pragma once
// A transport between GPUs that is not copies into one another's memory, and whether there is one.

#include <memory>
#include <stop_token>

#include "core/base/ids.h"
#include "core/base/table.h"
#include "executor/backend/notice.h"
#include "executor/cuda/backend.h"
#include "executor/run/transport.h"

namespace tandem::cuda {

class GpuTransport : public Transport<Backend> {
 public:
  using Transport::Transport;
  /// Waiting ends when this says so. Before the devices start.
  virtual void heed(std::stop_token stop) = 0;
  /// Throws what has failed at a device's side since, on its thread.
  virtual void look(DeviceId device) = 0;
  /// After the run, when all has ended. What goes wrong by then is a note.
  virtual void close() = 0;
};

/// Whom a transport tells what.
struct TransportNotices {
  Notice note;   // what went wrong when the run had ended
  Notice stuck;  // the error, before it ends the process with exit code 1: an abort hangs
};

/// NCCL's communicators, made and connected, of devices on these GPUs. Throws AbsentError, before
/// anything is made, where there is no NCCL or two members of a communicator share a GPU.
std::unique_ptr<GpuTransport> make_nccl_transport(CommunicatorPlans plans,
                                                  const Table<DeviceId, int>& gpus,
                                                  TransportNotices notices);

}  // namespace tandem::cuda
