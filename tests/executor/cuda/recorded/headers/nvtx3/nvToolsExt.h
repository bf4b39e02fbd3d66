#pragma once
// In place of NVTX: there is never a profiler.

typedef struct nvtxDomainRegistration_st* nvtxDomainHandle_t;

enum { NVTX_VERSION = 3, NVTX_MESSAGE_TYPE_ASCII = 1 };

typedef struct {
  unsigned short version, size;
  int messageType;
  union {
    const char* ascii;
  } message;
} nvtxEventAttributes_t;

enum { NVTX_EVENT_ATTRIB_STRUCT_SIZE = sizeof(nvtxEventAttributes_t) };

inline nvtxDomainHandle_t nvtxDomainCreateA(const char* /*name*/) { return nullptr; }
inline int nvtxDomainRangePushEx(nvtxDomainHandle_t /*domain*/,
                                 const nvtxEventAttributes_t* /*attributes*/) {
  return 0;
}
inline int nvtxDomainRangePop(nvtxDomainHandle_t /*domain*/) { return 0; }
