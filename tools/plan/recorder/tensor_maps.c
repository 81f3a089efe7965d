/* Tensor maps: the driver's two encoders, handed out by cudaGetDriverEntryPoint. Here a map is 128
 * bytes made from the arguments; a kernel's parameters that hold them hold that map. */
#include "recorder.h"
#include <string.h>

enum { MAX_MAPS = 1024, INVALID_VALUE = 1, STEP = 8 };

struct map {
    int im2col;
    uint32_t type, rank, channels, pixels, modes[4];
    uint64_t address, dims[MAX_RANK], strides[MAX_RANK], box[MAX_RANK], steps[MAX_RANK];
    int32_t lower[MAX_RANK], upper[MAX_RANK];
};
static struct {
    struct map map;
    uint64_t bytes[MAP_BYTES / 8];
} known[MAX_MAPS];
static int count;

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int keep(void *out, const struct map *map) {
    int i = 0;
    while (i < count && memcmp(&known[i].map, map, sizeof *map))
        ++i;
    if (i == MAX_MAPS) {
        refuse("more than 1,024 tensor maps");
        return INVALID_VALUE;
    }
    if (i == count) {
        uint64_t seed = 0;
        for (size_t at = 0; at + 8 <= sizeof *map; at += 8) {
            uint64_t part;
            memcpy(&part, (const char *)map + at, 8);
            seed = mixed(seed ^ part);
        }
        for (size_t word = 0; word < MAP_BYTES / 8; ++word)
            known[i].bytes[word] = mixed(seed + word);
        known[count++].map = *map;
    }
    memcpy(out, known[i].bytes, MAP_BYTES);
    return cudaSuccess;
}

static int start(struct map *map, uint32_t type, uint32_t rank, const void *address, const uint64_t *dims,
                 const uint64_t *strides, const uint32_t *steps, const uint32_t *modes) {
    memset(map, 0, sizeof *map);
    if (rank < 1 || rank > MAX_RANK)
        return INVALID_VALUE;
    map->type = type;
    map->rank = rank;
    map->address = (uint64_t)(uintptr_t)address;
    memcpy(map->dims, dims, rank * sizeof *dims);
    memcpy(map->strides, strides, (rank - 1) * sizeof *strides);
    for (uint32_t i = 0; i < rank; ++i)
        map->steps[i] = steps[i];
    memcpy(map->modes, modes, sizeof map->modes);
    return cudaSuccess;
}

static int encode_tiled(void *out, uint32_t type, uint32_t rank, void *address, const uint64_t *dims,
                        const uint64_t *strides, const uint32_t *box, const uint32_t *steps, uint32_t interleave,
                        uint32_t swizzle, uint32_t promotion, uint32_t fill) {
    struct map map;
    const uint32_t modes[] = {interleave, swizzle, promotion, fill};
    if (start(&map, type, rank, address, dims, strides, steps, modes))
        return INVALID_VALUE;
    for (uint32_t i = 0; i < rank; ++i)
        map.box[i] = box[i];
    return keep(out, &map);
}

static int encode_im2col(void *out, uint32_t type, uint32_t rank, void *address, const uint64_t *dims,
                         const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                         uint32_t pixels, const uint32_t *steps, uint32_t interleave, uint32_t swizzle,
                         uint32_t promotion, uint32_t fill) {
    struct map map;
    const uint32_t modes[] = {interleave, swizzle, promotion, fill};
    if (rank < 3 || start(&map, type, rank, address, dims, strides, steps, modes))
        return INVALID_VALUE;
    map.im2col = 1;
    map.channels = channels;
    map.pixels = pixels;
    memcpy(map.lower, lower, (rank - 2) * sizeof *lower);
    memcpy(map.upper, upper, (rank - 2) * sizeof *upper);
    return keep(out, &map);
}

static cudaError_t entry_point(const char *name, void **function) {
    *function = NULL;
    if (!strcmp(name, "cuTensorMapEncodeTiled"))
        *function = (void *)encode_tiled;
    else if (!strcmp(name, "cuTensorMapEncodeIm2col"))
        *function = (void *)encode_im2col;
    else {
        char what[160];
        snprintf(what, sizeof what, "cudaGetDriverEntryPoint of %.100s", name);
        return settle(refuse(what));
    }
    return settle(cudaSuccess);
}

EXPORT cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *result) {
    (void)flags;
    const cudaError_t error = entry_point(name, function);
    if (result)
        *result = error ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    return error;
}
PER_THREAD(cudaGetDriverEntryPoint, _ptsz)

#if CUDART_VERSION >= 12050
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *result) {
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, result);
}
PER_THREAD(cudaGetDriverEntryPointByVersion, _ptsz)
#endif

static void put_signed(const char *name, const int32_t *values, uint32_t n) {
    fprintf(report, ",\"%s\":[", name);
    for (uint32_t i = 0; i < n; ++i)
        fprintf(report, "%s%d", i ? "," : "", values[i]);
    fputc(']', report);
}

static void put_map(const struct map *map) {
    fprintf(report, "{\"kind\":\"%s\",\"data_type\":%u,\"address\":%llu", map->im2col ? "im2col" : "tiled", map->type,
            (unsigned long long)map->address);
    put_numbers("global_dim", map->dims, map->rank);
    put_numbers("global_strides", map->strides, map->rank - 1);
    put_numbers("element_strides", map->steps, map->rank);
    if (map->im2col) {
        put_signed("lower_corner", map->lower, map->rank - 2);
        put_signed("upper_corner", map->upper, map->rank - 2);
        fprintf(report, ",\"channels_per_pixel\":%u,\"pixels_per_column\":%u", map->channels, map->pixels);
    } else {
        put_numbers("box_dim", map->box, map->rank);
    }
    fprintf(report, ",\"interleave\":%u,\"swizzle\":%u,\"l2_promotion\":%u,\"oob_fill\":%u}", map->modes[0],
            map->modes[1], map->modes[2], map->modes[3]);
}

/* ptxas aligns a map in constant memory, where parameters begin at no multiple of 64: in the
 * parameter bytes it may lie at any multiple of 8. */
void report_maps(const unsigned char *parameters, uint32_t bytes) {
    const char *separator = "";
    fputs(",\"maps\":[", report);
    for (uint32_t at = 0; at + MAP_BYTES <= bytes; at += STEP)
        for (int i = 0; i < count; ++i)
            if (!memcmp(parameters + at, known[i].bytes, MAP_BYTES)) {
                fprintf(report, "%s{\"at\":%u,\"map\":", separator, at);
                put_map(&known[i].map);
                fputc('}', report);
                separator = ",";
                break;
            }
    fputc(']', report);
}
