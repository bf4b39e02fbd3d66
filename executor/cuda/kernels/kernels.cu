// Kernels as a GPU runs them.

#include "executor/cuda/kernels/gpu_grid.cuh"
#include "executor/cuda/kernels/kernel_context.h"
