#define SGTRAIN_KERNELS_NAMESPACE avx512
#include "nn/fused/kernels.inl.h"
