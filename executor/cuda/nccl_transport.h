#pragma once
// NcclTransport: transfers and sums over NCCL, between devices of one process or of several.

#include <functional>
#include <span>
#include <stop_token>
#include <utility>

#include "executor/cuda/communicators.h"
#include "executor/run/transport.h"

namespace tandem::cuda {

template <class B>
class NcclTransport final : public Transport<B> {
 public:
  using typename Transport<B>::T;
  using typename Transport<B>::W;
  using typename Transport<B>::Stream;
  /// A stream of a device's, as NCCL takes it.
  using StreamHandle = std::function<GpuStream(DeviceId, Stream&)>;

  /// As Communicators'. `gpus` outlives this.
  NcclTransport(Nccl& library, CommunicatorPlans plans, CommunicatorGpus& gpus,
                CommunicatorsSetup setup, StreamHandle handle)
      : Transport<B>(std::move(plans)),
        handle_(std::move(handle)),
        communicators_(library, this->plans(), gpus, std::move(setup)) {}

  void send(std::size_t communicator, std::span<const T> values, Stream& stream) override {
    const DeviceId from = this->plans().all()[communicator].devices.front();
    communicators_.send(communicator, std::as_bytes(values), handle_(from, stream));
  }
  void receive(std::size_t communicator, std::span<T> values, Stream& stream) override {
    const DeviceId to = this->plans().all()[communicator].devices.back();
    communicators_.receive(communicator, std::as_writable_bytes(values), handle_(to, stream));
  }
  void sum(std::size_t communicator, DeviceId device, std::span<W> values,
           Stream& stream) override {
    communicators_.sum(communicator, device, values, handle_(device, stream));
  }
  void abort() override { communicators_.abort(); }

  // As Communicators'.
  void heed(std::stop_token stop) { communicators_.heed(std::move(stop)); }
  void look(DeviceId device) { communicators_.look(device); }
  void close() { communicators_.close(); }

 private:
  const StreamHandle handle_;
  Communicators communicators_;
};

}  // namespace tandem::cuda
