/* What one lane computes: PTX semantics as C expressions. No branches, so that loops over the 32
 * lanes vectorise; registers hold raw bits. */
#ifndef LANES_H
#define LANES_H
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline, unused))

/* Bits under another type. */
#define PUN(name, to, from) \
  INLINE to name(from value) { to result; __builtin_memcpy(&result, &value, sizeof result); return result; }
PUN(f32, float, uint32_t)
PUN(f64, double, uint64_t)
PUN(bits32, uint32_t, float)
PUN(bits64, uint64_t, double)

/* Integers. */
INLINE uint32_t high_u16(uint16_t a, uint16_t b) { return (uint32_t)a * b >> 16; }
INLINE int32_t high_s16(int16_t a, int16_t b) { return (int32_t)a * b >> 16; }
INLINE uint32_t high_u32(uint32_t a, uint32_t b) { return (uint64_t)a * b >> 32; }
INLINE int32_t high_s32(int32_t a, int32_t b) { return (int64_t)a * b >> 32; }
INLINE uint64_t high_u64(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }
INLINE int64_t high_s64(int64_t a, int64_t b) { return (__int128)a * b >> 64; }

#define DIVISION(kind, type, minus) \
  INLINE type div_##kind(type a, type b) { return b == 0 ? (type)~(type)0 : minus ? (type)(0 - (uint64_t)a) : (type)(a / b); } \
  INLINE type rem_##kind(type a, type b) { return b == 0 ? (type)~(type)0 : minus ? 0 : (type)(a % b); }
DIVISION(u16, uint16_t, 0)
DIVISION(u32, uint32_t, 0)
DIVISION(u64, uint64_t, 0)
DIVISION(s16, int16_t, b == -1)
DIVISION(s32, int32_t, b == -1)
DIVISION(s64, int64_t, b == -1)

INLINE int32_t clamp_s32(int64_t a) { return a < INT32_MIN ? INT32_MIN : a > INT32_MAX ? INT32_MAX : (int32_t)a; }
INLINE int64_t cut24_s32(int32_t a) { return (int32_t)((uint32_t)a << 8) >> 8; }
INLINE uint64_t cut24_u32(uint32_t a) { return a & 0xFFFFFF; }

/* Amounts of the width and more leave 0, or only the sign. */
#define SHIFTS(width, type, signed_type) \
  INLINE type shl_b##width(type a, uint32_t n) { return n < width ? (type)((uint64_t)a << (n & 63)) : 0; } \
  INLINE type shr_u##width(type a, uint32_t n) { return n < width ? (type)(a >> (n & (width - 1))) : 0; } \
  INLINE signed_type shr_s##width(signed_type a, uint32_t n) { return a >> (n < width ? n : width - 1); }
SHIFTS(16, uint16_t, int16_t)
SHIFTS(32, uint32_t, int32_t)
SHIFTS(64, uint64_t, int64_t)

INLINE uint32_t shf_l(uint32_t a, uint32_t b, uint32_t n) { return (((uint64_t)b << 32 | a) << n) >> 32; }
INLINE uint32_t shf_r(uint32_t a, uint32_t b, uint32_t n) { return ((uint64_t)b << 32 | a) >> n; }
INLINE uint32_t at_most(uint32_t a, uint32_t limit) { return a < limit ? a : limit; }

INLINE uint32_t prmt(uint32_t a, uint32_t b, uint32_t picks) {
  const uint64_t pair = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int place = 0; place < 4; place++) {
    const uint32_t pick = picks >> 4 * place & 15;
    uint32_t byte = pair >> (pick & 7) * 8 & 0xFF;
    byte = pick & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
    result |= byte << 8 * place;
  }
  return result;
}
INLINE uint32_t length32(uint32_t a) { return a ? 32 - __builtin_clz(a) : 0; }
INLINE uint32_t length64(uint64_t a) { return a ? 64 - __builtin_clzll(a) : 0; }
INLINE uint32_t brev32(uint32_t a) {
  a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
  a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
  a = (a >> 4 & 0x0F0F0F0Fu) | (a & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(a);
}
INLINE uint64_t brev64(uint64_t a) { return (uint64_t)brev32((uint32_t)a) << 32 | brev32(a >> 32); }

/* Bit fields: of 32 bits the low bytes of start and count, of 64 the integers. */
#define PART32(number) ((number) & 255)
#define PART64(number) at_most(number, 255)
#define FIELDS(width, type, signed_type) \
  INLINE type low_mask##width(uint32_t count) { return count < width ? (type)(((type)1 << count) - 1) : (type)~(type)0; } \
  INLINE type bfe_u##width(type a, uint32_t position, uint32_t length) { \
    return shr_u##width(a, PART##width(position)) & low_mask##width(PART##width(length)); } \
  INLINE signed_type bfe_s##width(signed_type a, uint32_t position, uint32_t length) { \
    const uint32_t start = PART##width(position), count = PART##width(length); \
    const type field = bfe_u##width((type)a, position, length); \
    const uint32_t last = at_most(start + count ? start + count - 1 : 0, width - 1); \
    const uint32_t sign = ((type)a >> last & 1) & (count != 0); \
    const uint32_t room = start < width ? width - start : 0; \
    return (signed_type)(sign ? field | (type)~low_mask##width(at_most(count, room)) : field); } \
  INLINE type bfi_b##width(type a, type b, uint32_t position, uint32_t length) { \
    const uint32_t start = PART##width(position); \
    const type mask = shl_b##width(low_mask##width(PART##width(length)), start); \
    return (shl_b##width(a, start) & mask) | (b & (type)~mask); }
FIELDS(32, uint32_t, int32_t)
FIELDS(64, uint64_t, int64_t)

/* The |wanted|-th set bit from `base` up, or down where wanted is negative. */
INLINE uint32_t find_set_bit(uint32_t mask, uint32_t base, int32_t wanted) {
  if (base > 31) return ~0u;
  if (!wanted) return mask >> base & 1 ? base : ~0u;
  for (int64_t at = base, left = wanted < 0 ? -(int64_t)wanted : wanted; at >= 0 && at < 32; at += wanted < 0 ? -1 : 1)
    if (mask >> at & 1 && !--left) return at;
  return ~0u;
}
INLINE uint32_t bmsk(uint32_t start, uint32_t width) {
  return shl_b32(~0u, start) & ~shl_b32(~0u, at_most(start, 32) + at_most(width, 32));
}
INLINE int32_t byte_s(uint32_t word, int place) { return (int8_t)(word >> 8 * place); }
INLINE int32_t word_s(uint32_t word, int place) { return (int16_t)(word >> 16 * place); }
INLINE int32_t word_u(uint32_t word, int place) { return (uint16_t)(word >> 16 * place); }
INLINE int32_t distance(int32_t a, int32_t b) { return a > b ? a - b : b - a; }
INLINE int32_t byte_u(uint32_t word, int place) { return (uint8_t)(word >> 8 * place); }

/* Two integers of 16 bits in a register. */
#define PAIRS(kind, type) \
  INLINE uint32_t add_##kind##16x2(uint32_t a, uint32_t b) { \
    return (uint16_t)(a + b) | ((a >> 16) + (b >> 16)) << 16; } \
  INLINE uint32_t min_##kind##16x2(uint32_t a, uint32_t b) { \
    const type al = a, bl = b, ah = a >> 16, bh = b >> 16; \
    return (uint16_t)(al < bl ? al : bl) | (uint32_t)(uint16_t)(ah < bh ? ah : bh) << 16; } \
  INLINE uint32_t max_##kind##16x2(uint32_t a, uint32_t b) { \
    const type al = a, bl = b, ah = a >> 16, bh = b >> 16; \
    return (uint16_t)(al > bl ? al : bl) | (uint32_t)(uint16_t)(ah > bh ? ah : bh) << 16; }
PAIRS(u, uint16_t)
PAIRS(s, int16_t)

/* Floats. */
INLINE int nan32(float a) { return a != a; }
INLINE int nan64(double a) { return a != a; }
/* The NaN of a GPU's arithmetic for each NaN, of raw bits. */
INLINE uint32_t one_nan(uint32_t a) { return (a & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFFFFFu : a; }
INLINE float ftz(float a) {
  const uint32_t raw = bits32(a);
  return f32(raw & 0x7F800000u ? raw : raw & 0x80000000u);
}
/* As L2 adds, by the PTX ISA; shared memory keeps what is below the normal numbers. */
INLINE float l2_add(float a, float b) { return ftz(ftz(a) + ftz(b)); }
/* Of a result: what was only rounded up to the least normal number is flushed too. larger: the
 * result times 2^24, or an overflow. */
INLINE float ftz_tiny(float a, float larger) {
  return __builtin_fabsf(larger) < 0x1p-102f ? __builtin_copysignf(0, a) : ftz(a);
}
INLINE float sat32(float a) { const float low = a > 0 ? a : 0; return low < 1 ? low : 1; }
INLINE double sat64(double a) { const double low = a > 0 ? a : 0; return low < 1 ? low : 1; }

enum { RN, RZ, RM, RP };

/* near: rounded to nearest, of raw bits; exact: what it stands for. Moves by one where the mode
 * wants the other neighbour. The values of all lanes are computed: no operator that decides. */
#define TOWARD(width, type) \
  INLINE type toward##width(type bits, double near, double exact, int mode) { \
    const type sign = (type)1 << (width - 1), one = 1; \
    if (mode == RN) return bits; \
    const type negative = bits >> (width - 1), zero = (type)(bits << 1) == 0; \
    const type down = zero ? sign | one : bits - one + 2 * negative; \
    const type up = zero ? one : bits + one - 2 * negative; \
    const type high = mode == RP ? 0 : mode == RM ? near > exact : near > exact ? exact > 0 : 0; \
    const type low = mode == RM ? 0 : mode == RP ? near < exact : near < exact ? exact < 0 : 0; \
    const type fallen = high ? down : bits; \
    return low ? up : fallen; }
TOWARD(16, uint16_t)
TOWARD(32, uint32_t)

INLINE float float_of(double exact, int mode) {
  const float near = (float)exact;
  return f32(toward32(bits32(near), near, exact, mode));
}
/* S. Boldo, G. Melquiond: rounding to odd makes a later rounding correct. */
INLINE double to_odd(double near, double error) {
  const uint64_t raw = bits64(near);
  const uint64_t finite = (bits64(near - near) | bits64(error - error)) << 1 ? 0 : 1;
  const uint64_t fix = (error != 0 ? finite : 0) & ~raw; /* 1 in its lowest bit, or nothing */
  const double outward = near > 0 ? error : -error;
  return f64(outward > 0 ? raw + (fix & 1) : raw - (fix & 1));
}
INLINE double odd_sum(double a, double b) {
  const double total = a + b, back = total - a;
  return to_odd(total, (a - (total - back)) + (b - back));
}
INLINE float odd_float(double exact) {
  const float near = (float)exact;
  const uint32_t cut = toward32(bits32(near), near, exact, RZ);
  return f32((near != exact) & !nan64(exact) ? cut | 1 : bits32(near));
}
/* An exact 0 is -0 where the mode is down, but for +0 and +0. */
INLINE double zero_down(double total, double a, double b, int mode) {
  return (mode == RM) & (total == 0) ? f64((bits64(a) | bits64(b)) != 0 ? 1ull << 63 : 0) : total;
}
INLINE double sum_in(double a, double b, int mode) { return zero_down(odd_sum(a, b), a, b, mode); }
INLINE float add32(float a, float b, int mode) { return mode == RN ? a + b : float_of(sum_in(a, b, mode), mode); }
INLINE float mul32(float a, float b, int mode) { return mode == RN ? a * b : float_of((double)a * b, mode); }
INLINE double odd_fma(float a, float b, float c) { return odd_sum((double)a * b, c); }
INLINE float fma32(float a, float b, float c, int mode) {
  return mode == RN ? __builtin_fmaf(a, b, c) : float_of(sum_in((double)a * b, c, mode), mode);
}
INLINE float div32(float a, float b, int mode) {
  if (mode == RN) return a / b;
  const double quotient = (double)a / b, rest = __builtin_fma(-quotient, (double)b, (double)a);
  return float_of(to_odd(quotient, b < 0 ? -rest : rest), mode);
}
INLINE float sqrt32(float a, int mode) {
  if (mode == RN) return __builtin_sqrtf(a);
  const double root = __builtin_sqrt((double)a);
  return float_of(to_odd(root, __builtin_fma(-root, root, (double)a)), mode);
}
INLINE float div_approx(float a, float b) {
  const float size = __builtin_fabsf(b);
  const float reciprocal = size > 0x1p126f ? __builtin_copysignf(0, b) : 1 / b;
  return size < 0x1p-126f ? a / b : a * reciprocal;
}
INLINE float rsqrt32(float a) { return (float)(1 / __builtin_sqrt((double)a)); }

/* 2^a in double to about one unit in the last place: a polynomial on [-1/2, 1/2] (Taylor's, whose
 * rest is below 2^-54 there), scaled by the integer part. Good for |a| < 1000. */
INLINE double exp2_double(double a) {
  const double large = a > 400 ? 400 : a < -400 ? -400 : a;
  const double shifted = large + 0x1.8p52, n = shifted - 0x1.8p52;
  const double t = (large - n) * 0x1.62e42fefa39efp-1 + (large - n) * 0x1.abc9e3b39803fp-56;
  double p = 0x1.6124613a86d09p-33;
  p = __builtin_fma(p, t, 0x1.1eed8eff8d898p-29);
  p = __builtin_fma(p, t, 0x1.ae64567f544e4p-26);
  p = __builtin_fma(p, t, 0x1.27e4fb7789f5cp-22);
  p = __builtin_fma(p, t, 0x1.71de3a556c734p-19);
  p = __builtin_fma(p, t, 0x1.a01a01a01a01ap-16);
  p = __builtin_fma(p, t, 0x1.a01a01a01a01ap-13);
  p = __builtin_fma(p, t, 0x1.6c16c16c16c17p-10);
  p = __builtin_fma(p, t, 0x1.1111111111111p-7);
  p = __builtin_fma(p, t, 0x1.5555555555555p-5);
  p = __builtin_fma(p, t, 0x1.5555555555555p-3);
  p = __builtin_fma(p, t, 0.5);
  p = __builtin_fma(p, t, 1.0);
  p = __builtin_fma(p, t, 1.0);
  const double scaled = f64(bits64(p) + (bits64(shifted) << 52));
  return nan64(a) ? a : scaled;
}
INLINE float ex2(float a) { return (float)exp2_double(a); }
INLINE float lg2(float a) { return (float)__builtin_log2((double)a); }
/* A GPU counts angles in turns: a float product, cut, and cut again at 25 places. */
INLINE double turned(float a) {
  const double places = __builtin_trunc(__builtin_fmod(mul32(a, 0x1.45f306p-3f, RZ), 1) * 0x1p25);
  return 2 * 3.14159265358979323846 * (places * 0x1p-25);
}
INLINE float sin_approx(float a) { return (float)__builtin_sin(turned(a)); }
INLINE float cos_approx(float a) { return (float)__builtin_cos(turned(a)); }
/* .approx.ftz of doubles goes from high word to high word. */
INLINE double high_word(double a) {
  const uint64_t raw = bits64(a);
  const uint64_t kept = raw & 0x7FF0000000000000u ? raw & 0xFFFFFFFF00000000u : raw & 1ull << 63;
  return f64(nan64(a) ? 0x7FFFFFFF00000000u : kept);
}
INLINE float tanh_precise(float a) { return (float)__builtin_tanh((double)a); }
/* As coarse as a GPU's: 16 places. */
INLINE float tanh_approx(float a) {
  const uint32_t raw = bits32(tanh_precise(a)), size = raw & 0x7FFFFFFFu;
  return f32(size >= 0x00800000u && size < 0x7F800000u ? (raw + 0x80) & 0xFFFFFF00u : raw);
}

/* -0 is less than +0; NaN only if both are NaN, or, with keep, if any is. */
#define EXTREMES(width, type, raw, canonical) \
  INLINE type min##width(type a, type b, int keep) { \
    const type less = a == b ? f##width(bits##width(a) | bits##width(b)) : (a < b) | nan##width(b) ? a : b; \
    return keep ? (nan##width(a) | nan##width(b) ? f##width(canonical) : less) : nan##width(less) ? f##width(canonical) : less; } \
  INLINE type max##width(type a, type b, int keep) { \
    const type more = a == b ? f##width(bits##width(a) & bits##width(b)) : (a > b) | nan##width(b) ? a : b; \
    return keep ? (nan##width(a) | nan##width(b) ? f##width(canonical) : more) : nan##width(more) ? f##width(canonical) : more; }
EXTREMES(32, float, uint32_t, 0x7FFFFFFFu)
EXTREMES(64, double, uint64_t, 0x7FF8000000000000u)

/* `size` with the sign of a * b; a NaN stays as it is. */
INLINE float product_sign(float size, float a, float b) {
  return nan32(size) ? size : f32(bits32(size) | ((bits32(a) ^ bits32(b)) & 0x80000000u));
}

/* Halves: raw uint16. */
INLINE float widen_bf16(uint16_t a) { return f32((uint32_t)a << 16); }
INLINE float widen_f16(uint16_t a) {
  const uint32_t body = (uint32_t)(a & 0x7FFF) << 13, sign = (uint32_t)(a & 0x8000) << 16;
  const uint32_t finite = bits32(f32(body) * 0x1p112f);
  return f32(sign | (body >= 0x0F800000u ? body | 0x7F800000u : finite));
}
INLINE uint16_t narrow_bf16(float a) {
  const uint32_t raw = bits32(a);
  return nan32(a) ? 0x7FFF : (raw + 0x7FFF + (raw >> 16 & 1)) >> 16;
}
INLINE uint16_t narrow_f16(float a) {
  const uint32_t raw = bits32(a), size = raw & 0x7FFFFFFFu, sign = raw >> 16 & 0x8000;
  const uint32_t normal = (size - 0x38000000u + 0xFFF + (size >> 13 & 1)) >> 13;
  const uint32_t tiny = bits32(f32(size) + 0.5f) - 0x3F000000u;
  const uint32_t finite = size < 0x38800000u ? tiny : normal;
  const uint32_t value = size >= 0x477FF000u ? 0x7C00 : finite;
  return size > 0x7F800000u ? 0x7FFF : value | sign;
}
INLINE uint16_t narrow64_bf16(double a) { return narrow_bf16(odd_float(a)); }
INLINE uint16_t narrow64_f16(double a) { return narrow_f16(odd_float(a)); }
INLINE uint16_t half_bf16(double exact, int mode) {
  const uint16_t near = narrow64_bf16(exact);
  return toward16(near, widen_bf16(near), exact, mode);
}
INLINE uint16_t half_f16(double exact, int mode) {
  const uint16_t near = narrow64_f16(exact);
  return toward16(near, widen_f16(near), exact, mode);
}
#define TF32(mode, more, lost) \
  INLINE uint32_t tf32_##mode(float a) { \
    const uint32_t raw = bits32(a), near = (raw + (more)) & 0xFFFFE000u; \
    return nan32(a) ? lost : near; }
TF32(rna, 0x1000u, raw & 0xFFFFE000u)
TF32(rn, 0xFFFu + (raw >> 13 & 1), 0x7FFFFFFFu)
TF32(rz, 0u, 0x7FFFFFFFu)
INLINE float relu32(float a) { return a <= 0 ? 0 : a; }
INLINE double relu64(double a) { return a <= 0 ? 0 : a; }
INLINE float flush_below(float a, float least) { return __builtin_fabsf(a) < least ? __builtin_copysignf(0, a) : a; }
INLINE double flush_below64(double a, double least) { return __builtin_fabs(a) < least ? __builtin_copysign(0, a) : a; }

/* Float to integer: clamped; NaN is 0, or the top bit where 64 bits take part. */
#define TO_INTEGER(kind, type, low, high, past) \
  INLINE type to_##kind(double a, type bad) { \
    const int above = a >= past, below = a < (double)(low), lost = nan64(a); \
    const type inside = (type)(above | below | lost ? 0 : a); \
    return lost ? bad : above ? (type)(high) : below ? (type)(low) : inside; }
TO_INTEGER(u8, uint8_t, 0, UINT8_MAX, 0x1p8)
TO_INTEGER(u16, uint16_t, 0, UINT16_MAX, 0x1p16)
TO_INTEGER(u32, uint32_t, 0, UINT32_MAX, 0x1p32)
TO_INTEGER(u64, uint64_t, 0, UINT64_MAX, 0x1p64)
TO_INTEGER(s8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
TO_INTEGER(s16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
TO_INTEGER(s32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
TO_INTEGER(s64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)

INLINE double odd_u64(uint64_t a) { return odd_sum((double)(a >> 32) * 0x1p32, (double)(uint32_t)a); }
INLINE double odd_s64(int64_t a) { return odd_sum((double)(a >> 32) * 0x1p32, (double)(uint32_t)a); }

/* 8-bit floats: to nearest even; what is larger becomes the largest, NaN 0x7F. Of f32: the bits that are cut, the step
 * of the exponents, the least normal number, and what added to a float makes its last place the least 8-bit one. */
#define FP8(form, cut, bias, least, adds, largest) \
  INLINE uint8_t narrow_##form(float a, int relu) { \
    const uint32_t raw = bits32(a), size = raw & 0x7FFFFFFFu; \
    const uint32_t normal = ((size + ((1u << (cut - 1)) - 1) + (size >> cut & 1)) >> cut) - ((127 - bias) << (23 - cut)); \
    const uint32_t tiny = bits32(f32(size) + adds) - bits32(adds); \
    const uint32_t near = size < least ? tiny : normal, kept = near < largest ? near : largest; \
    const uint32_t sign = raw >> 24 & 0x80; \
    return size > 0x7F800000u ? 0x7F : sign && relu ? 0 : sign | kept; }
FP8(e4m3, 20, 7, 0x3C800000u, 0x1p14f, 0x7Eu)
FP8(e5m2, 21, 15, 0x38800000u, 0x1p7f, 0x7Bu)
INLINE uint16_t half_of_e4m3(uint8_t a, int relu) {
  const uint16_t size = narrow_f16(widen_f16((uint16_t)((a & 0x7F) << 7)) * 256.0f), sign = (a & 0x80) << 8;
  return (a & 0x7F) == 0x7F ? 0x7FFF : sign && relu ? 0 : size | sign;
}
INLINE uint16_t half_of_e5m2(uint8_t a, int relu) {
  return (a & 0x7F) > 0x7C ? 0x7FFF : a >> 7 && relu ? 0 : (uint16_t)(a << 8);
}

#endif
