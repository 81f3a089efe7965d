/* Memsets, and copies from device memory to device memory, on the caller's stream. */
#include "recorder.h"

static uint64_t number(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

/* Whether all rows lie in memory that the launcher was given. */
static int rows_known(const void *start, uint64_t pitch, uint64_t width, uint64_t height) {
    const unsigned __int128 bytes = (unsigned __int128)pitch * (height - 1) + width;
    return bytes >> 48 == 0 && known_memory(number(start), (uint64_t)bytes);
}

static void put(const char *name, uint64_t value) { fprintf(report, ",\"%s\":%llu", name, (unsigned long long)value); }

static int asked(cudaStream_t stream) {
    if (!current)
        return refuse("a memset or copy while the library is loaded");
    strayed += number(stream) != current->stream;
    return cudaSuccess;
}

static int fill(void *target, uint64_t pitch, int value, uint64_t width, uint64_t height, cudaStream_t stream) {
    const int error = asked(stream);
    if (error || dry || !width || !height)
        return error;
    if (height > 1 && width > pitch)
        return cudaErrorInvalidPitchValue;
    if (!rows_known(target, pitch, width, height))
        return cudaErrorInvalidValue;
    if (begin_node("memset")) {
        put("target", number(target));
        put("value", (unsigned char)value);
        put("width_bytes", width);
        put("height", height);
        put("pitch_bytes", height > 1 ? pitch : 0);
        fputc('}', report);
    }
    return cudaSuccess;
}

static int copy(void *target, uint64_t target_pitch, const void *source, uint64_t source_pitch, uint64_t width,
                uint64_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    const int error = asked(stream);
    if (error || dry || !width || !height)
        return error;
    if (height > 1 && (width > target_pitch || width > source_pitch))
        return cudaErrorInvalidPitchValue;
    const int known = rows_known(target, target_pitch, width, height) && rows_known(source, source_pitch, width, height);
    if (kind != cudaMemcpyDeviceToDevice && (kind != cudaMemcpyDefault || !known))
        return refuse("a copy from or to host memory");
    if (!known)
        return cudaErrorInvalidValue;
    if (begin_node("copy")) {
        put("target", number(target));
        put("source", number(source));
        put("width_bytes", width);
        put("height", height);
        put("target_pitch_bytes", height > 1 ? target_pitch : 0);
        put("source_pitch_bytes", height > 1 ? source_pitch : 0);
        fputc('}', report);
    }
    return cudaSuccess;
}

EXPORT cudaError_t cudaMemsetAsync(void *target, int value, size_t bytes, cudaStream_t stream) {
    return settle(fill(target, bytes, value, bytes, 1, stream));
}
PER_THREAD(cudaMemsetAsync, _ptsz)

EXPORT cudaError_t cudaMemset2DAsync(void *target, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream) {
    return settle(fill(target, pitch, value, width, height, stream));
}
PER_THREAD(cudaMemset2DAsync, _ptsz)

EXPORT cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t bytes, enum cudaMemcpyKind kind,
                                   cudaStream_t stream) {
    return settle(copy(target, bytes, source, bytes, bytes, 1, kind, stream));
}
PER_THREAD(cudaMemcpyAsync, _ptsz)

EXPORT cudaError_t cudaMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch,
                                     size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return settle(copy(target, target_pitch, source, source_pitch, width, height, kind, stream));
}
PER_THREAD(cudaMemcpy2DAsync, _ptsz)
