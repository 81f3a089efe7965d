/* malloc and free of kernels (memory/heap.py), and the check of what they touch of the device's heap. */
#include <string.h>
#include "machine.h"

static uint64_t *slot(struct warp *w, uint32_t lane, uint32_t at) {
  struct worker *k = w->worker;
  return (uint64_t *)(k->local + ((size_t)w->index * LANES + lane) * k->local_stride + at);
}

void device_malloc(struct warp *w, uint32_t m, uint32_t result, uint32_t size) {
  LANES_OF(m, l) *slot(w, l, result) = w->launch->take(*slot(w, l, size));
}

void device_free(struct warp *w, uint32_t instruction, uint32_t m, uint32_t at) {
  LANES_OF(m, l) if (!w->launch->give(*slot(w, l, at))) fault_at(w, BAD_FREE, instruction, l);
}

/* buffer: of all lanes, or null where they are spread over several. The lane whose bytes are not allocated, or -1. */
int not_allocated(const struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                  uint32_t m) {
  if (buffer && !buffer->allocated) return -1;
  LANES_OF(m, l) {
    const struct buffer *mine = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (mine->allocated && memchr(mine->allocated + (address[l] - mine->address), 0, site->size)) return l;
  }
  return -1;
}
