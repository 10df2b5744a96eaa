#define SGTRAIN_KERNELS_NAMESPACE avx2
#include "nn/fused/kernels.inl.h"
