// Where kernels.cc finds the functions of each instruction set: one namespace for each target of cpu/targets.h, as
// hwy/foreach_target.h names them, and one for the reference set.
#pragma once

#include "kernels/attention.h"
#include "kernels/cpu/targets.h"
#include "kernels/elementwise.h"
#include "kernels/products.h"

#define QUIRE_DECLARE_TABLES(name_space)    \
  namespace name_space {                    \
  ProductKernels product_kernels();         \
  AttentionKernels attention_kernels();     \
  ElementwiseKernels elementwise_kernels(); \
  }

namespace quire::kernels {

QUIRE_DECLARE_TABLES(reference)
QUIRE_DECLARE_TABLES(QUIRE_PORTABLE_NAMESPACE)
QUIRE_DECLARE_TABLES(N_AVX2)
QUIRE_DECLARE_TABLES(N_AVX3)
QUIRE_DECLARE_TABLES(N_AVX3_DL)

}  // namespace quire::kernels

#undef QUIRE_DECLARE_TABLES
