#pragma once
// TANDEM_IN_KERNELS: functions that the kernels of every device share.

// Of a kernel: a GPU's code, or inlined into a loop and so compiled for its instruction set.
#if defined(__CUDACC__)
#define TANDEM_IN_KERNELS __host__ __device__
#else
#define TANDEM_IN_KERNELS [[gnu::always_inline]]
#endif
