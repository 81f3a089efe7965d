// cuRAND's device side for Philox, the counter-based generator (Salmon et al., 2011): ten rounds over a
// counter of 128 bits. A sequence is the upper half of the counter, an offset counts single numbers.
#pragma once
#include <cuda_runtime.h>

#include <cmath>

#define ASTRA_RANDOM __host__ __device__ __forceinline__

struct curandStatePhilox4_32_10 {
  uint4 counter;
  uint4 numbers;
  uint2 key;
  unsigned used;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;
// The default generator is not there: its sequences need tables of the toolkit's.
struct curandStateXORWOW;
typedef curandStateXORWOW curandState;
typedef curandStateXORWOW curandState_t;

namespace astra {

ASTRA_RANDOM uint4 philox(uint4 c, uint2 key) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xD2511F53ull * c.x, b = 0xCD9E8D57ull * c.z;
    c = make_uint4(unsigned(b >> 32) ^ c.y ^ key.x, unsigned(b), unsigned(a >> 32) ^ c.w ^ key.y, unsigned(a));
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return c;
}

ASTRA_RANDOM void advance(uint4& counter, unsigned long long steps) {
  const unsigned long long low = (static_cast<unsigned long long>(counter.y) << 32) | counter.x, sum = low + steps;
  counter.x = unsigned(sum);
  counter.y = unsigned(sum >> 32);
  if (sum < low && ++counter.z == 0) ++counter.w;
}

ASTRA_RANDOM float uniform(unsigned number) { return number * 0x1p-32f + 0x1p-33f; }

ASTRA_RANDOM float2 normal(unsigned one, unsigned other) {
  const float radius = sqrtf(-2.0f * logf(uniform(one)));
  const float angle = other * (0x1p-32f * 6.2831855f) + 0x1p-33f * 6.2831855f;
  return make_float2(radius * sinf(angle), radius * cosf(angle));
}

}  // namespace astra

ASTRA_RANDOM void skipahead(unsigned long long numbers, curandStatePhilox4_32_10* state) {
  state->used += unsigned(numbers & 3);
  astra::advance(state->counter, numbers / 4 + state->used / 4);
  state->used %= 4;
  state->numbers = astra::philox(state->counter, state->key);
}

ASTRA_RANDOM void skipahead_sequence(unsigned long long sequences, curandStatePhilox4_32_10* state) {
  const unsigned long long high = ((static_cast<unsigned long long>(state->counter.w) << 32) | state->counter.z) + sequences;
  state->counter.z = unsigned(high);
  state->counter.w = unsigned(high >> 32);
  state->numbers = astra::philox(state->counter, state->key);
}

ASTRA_RANDOM void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset,
                              curandStatePhilox4_32_10* state) {
  *state = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), make_uint2(unsigned(seed), unsigned(seed >> 32)), 0};
  skipahead_sequence(sequence, state);
  skipahead(offset, state);
}

ASTRA_RANDOM unsigned curand(curandStatePhilox4_32_10* state) {
  const uint4 all = state->numbers;
  const unsigned number = state->used == 0 ? all.x : state->used == 1 ? all.y : state->used == 2 ? all.z : all.w;
  if (++state->used == 4) skipahead(0, state);
  return number;
}

ASTRA_RANDOM uint4 curand4(curandStatePhilox4_32_10* state) {
  uint4 numbers;
  numbers.x = curand(state);
  numbers.y = curand(state);
  numbers.z = curand(state);
  numbers.w = curand(state);
  return numbers;
}

// In (0, 1].
ASTRA_RANDOM float curand_uniform(curandStatePhilox4_32_10* state) { return astra::uniform(curand(state)); }

ASTRA_RANDOM float4 curand_uniform4(curandStatePhilox4_32_10* state) {
  const uint4 n = curand4(state);
  return make_float4(astra::uniform(n.x), astra::uniform(n.y), astra::uniform(n.z), astra::uniform(n.w));
}

ASTRA_RANDOM float2 curand_normal2(curandStatePhilox4_32_10* state) {
  const unsigned one = curand(state);
  return astra::normal(one, curand(state));
}

ASTRA_RANDOM float4 curand_normal4(curandStatePhilox4_32_10* state) {
  const uint4 n = curand4(state);
  const float2 a = astra::normal(n.x, n.y), b = astra::normal(n.z, n.w);
  return make_float4(a.x, a.y, b.x, b.y);
}
#undef ASTRA_RANDOM
