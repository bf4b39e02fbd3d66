// Kernels as the machine of recorder.h runs them.

#include "executor/cuda/kernels/kernel_context.h"
#include "tests/executor/cuda/recorded/recorded_grid.h"
