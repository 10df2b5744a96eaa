#define SGTRAIN_KERNELS_NAMESPACE avx512bf16
#include "nn/fused/kernels.inl.h"
