#define SGTRAIN_KERNELS_NAMESPACE base
#include "nn/fused/kernels.inl.h"
