// Arrays of single threads: those that ptxas leaves in local memory, and those of which it makes registers.
#define KERNEL(name, body) extern "C" __global__ void name(const int *in, int *out, int n) { const int t = threadIdx.x; body }
#define FILL(type, size) type a[size]; for (int i = 0; i < size; i++) a[i] = in[i * 32 + t];
#define ROLLED _Pragma("unroll 1")

KERNEL(indexed_32, FILL(int, 32) int s = 0; ROLLED for (int i = 0; i < n; i++) s += a[in[i] & 31]; out[t] = s;)
KERNEL(by_lane_32, FILL(int, 32) int s = 0; ROLLED for (int i = 0; i < n; i++) s += a[t * i & 31]; out[t] = s;)
KERNEL(bytes_64, FILL(unsigned char, 64) int s = 0; ROLLED for (int i = 0; i < n; i++) s += a[in[i] & 63]; out[t] = s;)
KERNEL(doubles_16, FILL(double, 16) double s = 0; ROLLED for (int i = 0; i < n; i++) s += a[in[i] & 15]; out[t] = (int)s;)
KERNEL(sorted_8, FILL(int, 8) ROLLED for (int i = 0; i < 8; i++) ROLLED for (int j = 0; j < 7 - i; j++) if (a[j] > a[j + 1])
  { int x = a[j]; a[j] = a[j + 1]; a[j + 1] = x; } for (int i = 0; i < 8; i++) out[i * 32 + t] = a[i];)
KERNEL(once_4, FILL(int, 4) out[t] = a[n & 3];)
KERNEL(once_32, FILL(int, 32) out[t] = a[n & 31];)
KERNEL(often_16, FILL(int, 16) int s = 0; for (int j = 0; j < 8; j++) s += a[in[n + j] & 15]; out[t] = s;)
KERNEL(four_16, FILL(int, 16) int s = 0; for (int j = 0; j < 4; j++) s += a[in[n + j] & 15]; out[t] = s;)
KERNEL(looped_8, FILL(int, 8) int s = 0; ROLLED for (int i = 0; i < n; i++) s += a[in[i] & 7]; out[t] = s;)
KERNEL(looped_16, FILL(int, 16) int s = 0; ROLLED for (int i = 0; i < n; i++) s += a[in[i] & 15]; out[t] = s;)
KERNEL(updated_8, FILL(int, 8) ROLLED for (int i = 0; i < n; i++) a[in[i] & 7] += i; for (int i = 0; i < 8; i++) out[i * 32 + t] = a[i];)
KERNEL(filled_in_turn, int a[6]; ROLLED for (int i = 0; i < 6; i++) a[i] = in[i * 32 + t]; out[t] = a[in[n] % 6u];)
KERNEL(read_in_turn, FILL(int, 6) int s = 0; ROLLED for (int i = 0; i < 6; i++) s = 3 * s + a[i]; out[t] = s;)
KERNEL(one_byte, FILL(unsigned char, 8) out[t] = a[n & 7];)
KERNEL(one_double, FILL(double, 4) out[t] = (int)a[n & 3];)
KERNEL(one_of_two, FILL(int, 8) int b[8]; for (int i = 0; i < 8; i++) b[i] = in[i * 64 + t]; int *p = in[n] > 3 ? a : b; out[t] = p[1] + p[2];)
KERNEL(large_sine, out[t] = (int)(sinf((float)in[t] * 1e9f) * 1e6f);)

struct Pair { int x[4]; int y; };
__device__ __noinline__ int changed(Pair *pair, int k) { pair->y += 1; return pair->x[k & 3]; }
KERNEL(by_pointer, Pair p; for (int i = 0; i < 4; i++) p.x[i] = in[i * 32 + t]; p.y = in[5]; int r = changed(&p, n); out[t] = r + p.y;)
