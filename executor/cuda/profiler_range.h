#pragma once
// What profilers of NVIDIA's show of the host's threads: ranges of NVTX, in the domain "tandem".

#include <concepts>
#include <string>

#include <nvtx3/nvToolsExt.h>

namespace tandem::cuda {

/// On the calling thread, from its construction to its destruction. Without a profiler it costs a
/// comparison, and its name is not made.
class ProfilerRange {
 public:
  template <std::invocable Name>
  explicit ProfilerRange(const Name& name) : open_(domain() != nullptr) {
    if (open_) push(name());
  }
  ~ProfilerRange() {
    if (open_) nvtxDomainRangePop(domain());
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  /// Null without a profiler. One that comes later is not seen: NVTX asks for it at the first call.
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t made = nvtxDomainCreateA("tandem");
    return made;
  }
  static void push(const std::string& name) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name.c_str();
    nvtxDomainRangePushEx(domain(), &attributes);
  }

  bool open_;
};

}  // namespace tandem::cuda
