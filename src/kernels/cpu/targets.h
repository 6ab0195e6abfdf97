// Which instruction sets the kernels are built for. Included before hwy/foreach_target.h, which then compiles the including file
// once for each: HWY_AVX3_DL (avx512-vnni), HWY_AVX3 (avx512), HWY_AVX2 (avx2) and the static target of the build, plain loops
// (portable).
#pragma once

#define HWY_WANT_AVX3_DL
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)

#include <hwy/detect_targets.h>

#if HWY_STATIC_TARGET == HWY_SCALAR
#define QUIRE_PORTABLE_NAMESPACE N_SCALAR
#elif HWY_STATIC_TARGET == HWY_EMU128
#define QUIRE_PORTABLE_NAMESPACE N_EMU128
#else
#error "build without -march flags: the kernels choose their instruction set at run time"
#endif
