/* cuRAND's host generators of pseudorandom numbers: other numbers than its own, of the same distributions. */
#include "libraries.h"
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, NOT_INITIALIZED = 101, ALLOCATION_FAILED = 102, TYPE_ERROR = 103, OUT_OF_RANGE = 104,
       LENGTH_NOT_MULTIPLE = 105, LAUNCH_FAILURE = 201 };
enum { FIRST_QUASI = 200 };
/* Repeated in programs/library_calls.py. */
enum distribution { BITS_32, BITS_64, UNIFORM, UNIFORM_DOUBLE, NORMAL, NORMAL_DOUBLE, LOG_NORMAL, LOG_NORMAL_DOUBLE, POISSON };
struct generator { uint64_t seed, drawn; int on_host; };

static int create(struct generator **out, int type, int on_host) {
    if (vcudart_blocked())
        return NOT_INITIALIZED;
    if (type >= FIRST_QUASI) {
        vcudart_host.refuse("a generator of quasirandom numbers of cuRAND");
        return TYPE_ERROR;
    }
    *out = calloc(1, sizeof **out);
    if (!*out)
        return ALLOCATION_FAILED;
    (*out)->on_host = on_host;
    return DONE;
}
EXPORT int curandCreateGenerator(struct generator **out, int type) { return create(out, type, 0); }
EXPORT int curandCreateGeneratorHost(struct generator **out, int type) { return create(out, type, 1); }
EXPORT int curandDestroyGenerator(struct generator *g) {
    free(g);
    return g ? DONE : NOT_INITIALIZED;
}
EXPORT int curandSetPseudoRandomGeneratorSeed(struct generator *g, unsigned long long seed) {
    if (g) {
        g->seed = seed;
        g->drawn = 0;
    }
    return g ? DONE : NOT_INITIALIZED;
}
EXPORT int curandSetGeneratorOffset(struct generator *g, unsigned long long offset) {
    if (g)
        g->drawn = offset;
    return g ? DONE : NOT_INITIALIZED;
}
EXPORT int curandSetGeneratorOrdering(struct generator *g, int order) {
    (void)order;
    return g ? DONE : NOT_INITIALIZED;
}
EXPORT int curandSetStream(struct generator *g, cudaStream_t stream) {
    (void)stream;
    return g ? DONE : NOT_INITIALIZED;
}
EXPORT int curandGenerateSeeds(struct generator *g) { return g ? DONE : NOT_INITIALIZED; }

static int64_t bits(double value) {
    int64_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

static int generate(const char *call, struct generator *g, enum distribution what, const void *to, size_t count,
                    double mean, double deviation) {
    if (!g)
        return NOT_INITIALIZED;
    if (what >= NORMAL && what < POISSON && count % 2)
        return LENGTH_NOT_MULTIPLE;
    if (!count)
        return DONE;
    const int64_t words[] = {what, (int64_t)count, (int64_t)g->seed, (int64_t)g->drawn, g->on_host,
                             address_word(to), bits(mean), bits(deviation)};
    g->drawn += count;
    return answer("random", call, words) ? LAUNCH_FAILURE : DONE;
}

#define PLAIN(name, what, item) \
    EXPORT int name(struct generator *g, item *to, size_t count) { return generate(#name, g, what, to, count, 0, 0); }
#define SHAPED(name, what, item) \
    EXPORT int name(struct generator *g, item *to, size_t count, item mean, item deviation) { \
        return deviation > 0 ? generate(#name, g, what, to, count, mean, deviation) : OUT_OF_RANGE; \
    }
PLAIN(curandGenerate, BITS_32, unsigned)
PLAIN(curandGenerateLongLong, BITS_64, unsigned long long)
PLAIN(curandGenerateUniform, UNIFORM, float)
PLAIN(curandGenerateUniformDouble, UNIFORM_DOUBLE, double)
SHAPED(curandGenerateNormal, NORMAL, float)
SHAPED(curandGenerateNormalDouble, NORMAL_DOUBLE, double)
SHAPED(curandGenerateLogNormal, LOG_NORMAL, float)
SHAPED(curandGenerateLogNormalDouble, LOG_NORMAL_DOUBLE, double)
EXPORT int curandGeneratePoisson(struct generator *g, unsigned *to, size_t count, double mean) {
    return mean > 0 ? generate("curandGeneratePoisson", g, POISSON, to, count, mean, 0) : OUT_OF_RANGE;
}
