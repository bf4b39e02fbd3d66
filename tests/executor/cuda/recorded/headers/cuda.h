#pragma once
// What tandem calls of CUDA's driver, in place of NVIDIA's header (cuda_runtime_api.h).

#include "tests/executor/cuda/recorded/headers/cuda_runtime_api.h"

extern "C" {

typedef enum cudaError_enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_UNKNOWN = 999
} CUresult;
typedef int CUdevice;
typedef struct CUstream_st* CUstream;
typedef struct CUgreenCtx_st* CUgreenCtx;
typedef struct CUdevResourceDesc_st* CUdevResourceDesc;
typedef enum { CU_DEV_RESOURCE_TYPE_SM = 1 } CUdevResourceType;
typedef struct {
  unsigned smCount;
} CUdevSmResource;
typedef struct {
  CUdevResourceType type;
  CUdevSmResource sm;
} CUdevResource;

enum : unsigned { CU_GREEN_CTX_DEFAULT_STREAM = 1, CU_STREAM_NON_BLOCKING = 1 };

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type);
CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count,
                                     const CUdevResource* input, CUdevResource* rest,
                                     unsigned flags, unsigned least);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned count);
CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device,
                          unsigned flags);
CUresult cuGreenCtxDestroy(CUgreenCtx context);
CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);

}  // extern "C"
