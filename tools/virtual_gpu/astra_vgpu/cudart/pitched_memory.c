/* Memory in rows: pitched allocations, copies and fills of rectangles. */
#include "graphs.h"

/* What an H200 rounds rows up to. */
#define PITCH 512

EXPORT cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + PITCH - 1) / PITCH * PITCH;
    return cudaMalloc(out, *pitch * height);
}

EXPORT cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                size_t height, enum cudaMemcpyKind kind) {
    RETURN_IF_BLOCKED;
    if (width > to_pitch || width > from_pitch)
        return vcudart_result(cudaErrorInvalidPitchValue);
    return vcudart_result(vcudart_copy_rows(to, to_pitch, from, from_pitch, width, height, kind));
}
PER_THREAD(cudaMemcpy2D, _ptds)

EXPORT cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    vcudart_asked_to_copy(to, from, kind, stream);
    return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
PER_THREAD(cudaMemcpy2DAsync, _ptsz)

EXPORT cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height) {
    cudaError_t error = vcudart_blocked();
    if (!error && width > pitch)
        error = vcudart_result(cudaErrorInvalidPitchValue);
    for (size_t row = 0; row < height && !error; ++row)
        error = cudaMemset((char *)pointer + row * pitch, value, width);
    return error;
}
PER_THREAD(cudaMemset2D, _ptds)

EXPORT cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                                     cudaStream_t stream) {
    vcudart_asked(stream);
    return cudaMemset2D(pointer, pitch, value, width, height);
}
PER_THREAD(cudaMemset2DAsync, _ptsz)

int vcudart_copy_box(const struct cudaMemcpy3DParms *p) {
    const struct cudaPitchedPtr *from = &p->srcPtr, *to = &p->dstPtr;
    int error = cudaSuccess;
    if (p->srcArray || p->dstArray)
        return vcudart_host.refuse("a copy to or from an array");
    for (size_t z = 0; z < p->extent.depth && !error; ++z) {
        const char *source = (const char *)from->ptr + p->srcPos.x +
                             (p->srcPos.y + (p->srcPos.z + z) * from->ysize) * from->pitch;
        char *target = (char *)to->ptr + p->dstPos.x + (p->dstPos.y + (p->dstPos.z + z) * to->ysize) * to->pitch;
        error = vcudart_copy_rows(target, to->pitch, source, from->pitch, p->extent.width, p->extent.height, p->kind);
    }
    return error;
}

EXPORT cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p) {
    RETURN_IF_BLOCKED;
    return vcudart_result(vcudart_copy_box(p));
}
PER_THREAD(cudaMemcpy3D, _ptds)

EXPORT cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream) {
    vcudart_asked_to_copy(p->dstPtr.ptr, p->srcPtr.ptr, p->kind, stream);
    return cudaMemcpy3D(p);
}
PER_THREAD(cudaMemcpy3DAsync, _ptsz)

EXPORT cudaError_t cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent) {
    size_t pitch = 0;
    cudaError_t error = cudaMallocPitch(&out->ptr, &pitch, extent.width, extent.height * extent.depth);
    out->pitch = pitch;
    out->xsize = extent.width;
    out->ysize = extent.height;
    return error;
}
