/* Tensor-core instructions: a warp's registers as matrices. What is computed matrices.py says. */
#include <string.h>
#include "machine.h"

#define LARGEST (32 * 32)

static float tf32(uint32_t raw) { return f32(raw & 0xFFFFE000u); }

/* One lane's element, out of its registers. */
static uint32_t element(const struct fragment *f, const uint32_t *const *registers, int lane, int i) {
  const int each = 32 / f->bits;
  const uint32_t word = registers[i / each][lane];
  return f->bits == 32 ? word : word >> i % each * f->bits & (((uint32_t)1 << f->bits) - 1);
}

static double real(enum format format, uint32_t raw) {
  switch (format) {
    case F16: return widen_f16(raw);
    case BF16: return widen_bf16(raw);
    case TF32: return tf32(raw);
    default: return f32(raw);
  }
}
static int64_t whole(enum format format, uint32_t raw) {
  return format == U8 ? (int64_t)(raw & 0xFF) : format == S8 ? (int8_t)raw : (int32_t)raw;
}

static float cut(double value) { return value < 0x1p128 && value > -0x1p128 ? float_of(value, RZ) : (float)value; }
static uint32_t from_real(enum format format, double value) {
  if (format == F16) return narrow64_f16(value);
  const float rounded = cut(value);
  return rounded != rounded ? 0x7FFFFFFFu : bits32(rounded);
}
static uint32_t from_whole(int64_t value, int saturates) {
  if (saturates) value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
  return (uint32_t)value;
}

/* Of zeros: they take no part in the alignment. */
#define NOTHING (-5000)
#define FRACTION_BITS 25

static int exponent(enum format format, double value) {
  const int least = format == F16 ? -14 : -126, own = (int)(bits64(value) >> 52 & 0x7FF) - 1023;
  return value == 0 ? NOTHING : own < least ? least : own;
}

/* a, b: sources of one element of the result, `stride` between those of b. */
static double aligned_sum(int k, const double *a, const short *ea, const double *b, const short *eb, int stride, double c, int top) {
  double plain = 0;
  for (int i = 0; i < k; i++) {
    const int both = ea[i] + eb[i * stride];
    plain += a[i] * b[i * stride];
    top = both > top ? both : top;
  }
  plain += c;
  if (plain - plain != 0) return plain;
  top = top < -600 ? -600 : top;
  const double unit = f64((uint64_t)(1023 + FRACTION_BITS - top) << 52);
  int64_t total = (int64_t)(c * unit);
  for (int i = 0; i < k; i++) total += (int64_t)(a[i] * b[i * stride] * unit);
  return total ? total / unit : plain == 0 ? plain : 0;
}

static void multiply_real(const struct product *p, const double *a, const double *b, double *sum) {
  short ea[LARGEST], eb[LARGEST];
  for (int i = 0; i < p->m * p->k; i++) ea[i] = exponent(p->a.format, a[i]);
  for (int i = 0; i < p->k * p->n; i++) eb[i] = exponent(p->b.format, b[i]);
  for (int row = 0; row < p->m; row++)
    for (int column = 0; column < p->n; column++) {
      double *const c = sum + row * p->n + column;
      for (int k = 0; k < p->k; k += p->step) {
        if (k) *c = cut(*c);
        const int at = row * p->k + k, under = k * p->n + column;
        *c = aligned_sum(p->step, a + at, ea + at, b + under, eb + under, p->n, *c, exponent(p->c.format, *c));
      }
      if (p->d.format == F16 && p->c.format == F32) *c = cut(*c);
    }
}
static void multiply_whole(const struct product *p, const int64_t *a, const int64_t *b, int64_t *sum) {
  for (int row = 0; row < p->m; row++)
    for (int k = 0; k < p->k; k++)
      for (int column = 0; column < p->n; column++) sum[row * p->n + column] += a[row * p->k + k] * b[k * p->n + column];
}

#define MULTIPLY(type, value, how) \
  { \
    type a[LARGEST], b[LARGEST], sum[LARGEST]; \
    for (int l = 0; l < LANES; l++) { \
      for (int i = 0; i < p->a.elements; i++) a[p->a.at[l * p->a.elements + i]] = value(p->a.format, element(&p->a, ra, l, i)); \
      for (int i = 0; i < p->b.elements; i++) b[p->b.at[l * p->b.elements + i]] = value(p->b.format, element(&p->b, rb, l, i)); \
      for (int i = 0; i < p->c.elements; i++) sum[p->c.at[l * p->c.elements + i]] = value(p->c.format, element(&p->c, rc, l, i)); \
    } \
    how(p, a, b, sum); \
    for (int i = 0; i < p->m * p->n; i++) raw[i] = p->integer ? from_whole(sum[i], p->saturates) : from_real(p->d.format, sum[i]); \
  }

void multiply(struct warp *w, uint32_t instruction, uint32_t m, const struct product *p, const uint32_t *const *ra,
              const uint32_t *const *rb, const uint32_t *const *rc, uint32_t *const *rd) {
  if (!m) return;
  require_whole_warp(w, instruction, m);
  uint32_t raw[LARGEST];
  if (p->integer) MULTIPLY(int64_t, whole, multiply_whole)
  else MULTIPLY(double, real, multiply_real)
  const int each = 32 / p->d.bits;
  EACH for (int i = 0; i < p->d.elements; i++) {
    const uint32_t value = raw[p->d.at[l * p->d.elements + i]];
    uint32_t *word = &rd[i / each][l];
    *word = i % each ? *word | value << i % each * p->d.bits : value;
  }
}

/* One product after the other is added, and rounded. */
void multiply_doubles(struct warp *w, uint32_t instruction, uint32_t m, const struct product *p,
                      const uint64_t *const *ra, const uint64_t *const *rb, const uint64_t *const *rc, uint64_t *const *rd) {
  if (!m) return;
  require_whole_warp(w, instruction, m);
  double a[LARGEST], b[LARGEST], sum[LARGEST];
  EACH {
    for (int i = 0; i < p->a.elements; i++) a[p->a.at[l * p->a.elements + i]] = f64(ra[i][l]);
    for (int i = 0; i < p->b.elements; i++) b[p->b.at[l * p->b.elements + i]] = f64(rb[i][l]);
    for (int i = 0; i < p->c.elements; i++) sum[p->c.at[l * p->c.elements + i]] = f64(rc[i][l]);
  }
  for (int row = 0; row < p->m; row++)
    for (int column = 0; column < p->n; column++)
      for (int k = 0; k < p->k; k++)
        sum[row * p->n + column] = fma(a[row * p->k + k], b[k * p->n + column], sum[row * p->n + column]);
  EACH for (int i = 0; i < p->d.elements; i++) memcpy(&rd[i][l], &sum[p->d.at[l * p->d.elements + i]], 8);
}

/* PTX: all threads of a warp execute it, those that have ended included. */
void require_whole_warp(struct warp *w, uint32_t instruction, uint32_t m) {
  if (m && m != ~0u) fault_at(w, MISSING_LANE, instruction, LOWEST(m));
  meet(w, m);
}

/* lines: 16 bytes of each lane; one of the four matrices to or from a register. */
void take_matrix(const void *lines, int matrix, int transposed, uint32_t *out) {
  const uint16_t(*half)[8] = (const uint16_t(*)[8])lines + 8 * matrix;
  EACH {
    const int a = l / 4, b = l % 4 * 2;
    out[l] = transposed ? half[b][a] | (uint32_t)half[b + 1][a] << 16 : half[a][b] | (uint32_t)half[a][b + 1] << 16;
  }
}
void give_matrix(void *lines, int matrix, int transposed, const uint32_t *in) {
  uint16_t(*half)[8] = (uint16_t(*)[8])lines + 8 * matrix;
  EACH {
    const int a = l / 4, b = l % 4 * 2;
    if (transposed) {
      half[b][a] = in[l];
      half[b + 1][a] = in[l] >> 16;
    } else {
      half[a][b] = in[l];
      half[a][b + 1] = in[l] >> 16;
    }
  }
}

/* Where an element of a fragment lies, among what accesses of `wide` elements each carry. */
static uint8_t *carried(void *const *data, uint32_t wide, uint32_t size, uint32_t place) {
  return (uint8_t *)data[place / wide] + place % wide * size;
}
static uint8_t *held(void *const *words, uint32_t word, uint32_t size, int lane, uint32_t element) {
  const uint32_t at = element * size;
  return (uint8_t *)words[at / word] + lane * word + at % word;
}
/* source: by lane, the places of its `different` elements, which fill `elements`; word: bytes of a register. */
void take_fragment(void *const *data, uint32_t wide, uint32_t different, uint32_t size, const uint16_t *source,
                   uint32_t elements, void *const *words, uint32_t word) {
  EACH for (uint32_t e = 0; e < elements; e++)
    memcpy(held(words, word, size, l, e), carried(data, wide, size, source[l * different + e % different]), size);
}
void give_fragment(void *const *data, uint32_t wide, uint32_t different, uint32_t size, const uint16_t *source,
                   uint32_t elements, void *const *words, uint32_t word) {
  (void)elements;
  EACH for (uint32_t e = 0; e < different; e++)
    memcpy(carried(data, wide, size, source[l * different + e]), held(words, word, size, l, e), size);
}
