/* double in the directed rounding modes, by the host's own. */
#include "simt.h"
#include <fenv.h>

static const int host_mode[] = {[RN] = FE_TONEAREST, [RZ] = FE_TOWARDZERO, [RM] = FE_DOWNWARD, [RP] = FE_UPWARD};

/* volatile: the compiler does not know that the mode is an operand, and would move the operation. */
#define DIRECTED(name, operation, ...) \
  double name##_directed(__VA_ARGS__, int mode) { \
    volatile double result; \
    fesetround(host_mode[mode]); \
    operation; \
    fesetround(FE_TONEAREST); \
    return result; }
#define TWO(name, sign) DIRECTED(name, volatile double x = a; volatile double y = b; result = x sign y, double a, double b)
TWO(add, +)
TWO(sub, -)
TWO(mul, *)
TWO(div, /)
DIRECTED(rcp, volatile double x = a; result = 1 / x, double a)
DIRECTED(sqrt, volatile double x = a; result = __builtin_sqrt(x), double a)
DIRECTED(fma, volatile double x = a; volatile double y = b; volatile double z = c; result = __builtin_fma(x, y, z),
         double a, double b, double c)
DIRECTED(s64, volatile int64_t x = a; result = (double)x, int64_t a)
DIRECTED(u64, result = 0; volatile double high = (double)(a >> 32) * 0x1p32; volatile double low = (uint32_t)a; result = high + low,
         uint64_t a)
