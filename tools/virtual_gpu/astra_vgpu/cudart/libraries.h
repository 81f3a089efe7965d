/* Calls of NVIDIA's libraries that are answered on the host, by Python (programs/library_calls.py). */
#ifndef LIBRARIES_H
#define LIBRARIES_H
#include "vcudart.h"

/* kind: "gemm" with 21 words, "vector" with 9, or "random" with 8. What Python says: a cudaError_t, or cudaErrorNotSupported where nobody answers. */
static inline int answer(const char *kind, const char *call, const int64_t *words) {
    if (vcudart_blocked())
        return vcudart_blocked();
    if (!vcudart_host.answer)
        return cudaErrorNotSupported;
    if (vcudart_capturing())
        return vcudart_result(vcudart_host.refuse("a call of cuBLAS or cuRAND while a stream is captured"));
    return vcudart_result(vcudart_host.answer(kind, call, words));
}
static inline int64_t address_word(const void *pointer) { return (int64_t)(uintptr_t)pointer; }

#endif
