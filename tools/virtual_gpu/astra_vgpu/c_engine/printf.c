/* What kernels print: format and arguments, which Python puts together. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

void note_print(struct warp *w, uint32_t m, const uint32_t *slots) {
  struct worker *k = w->worker;
  if (!w->launch->printed) return;
  LANES_OF(m, l) {
    if (k->print_count == MAX_PRINTS) return;
    if (!(k->print_count & (k->print_count - 1))) {
      k->prints = realloc(k->prints, (k->print_count ? 2 * k->print_count : 1) * sizeof *k->prints);
      if (!k->prints) abort();
    }
    const uint8_t *mine = k->local + ((size_t)w->index * LANES + l) * k->local_stride;
    struct print *print = &k->prints[k->print_count++];
    uint64_t arguments;
    memset(print, 0, sizeof *print);
    print->block = w->block_id;
    memcpy(&print->format, mine + slots[0], 8);
    memcpy(&arguments, mine + slots[1], 8);
    const uint64_t at = arguments - ((uint64_t)LOCAL_WINDOW << 56), limit = w->launch->local_bytes;
    if (at >= limit) continue;
    print->bytes = limit - at < PRINT_BYTES ? limit - at : PRINT_BYTES;
    memcpy(print->arguments, mine + at, print->bytes);
  }
}

/* One worker at a time. */
void hand_over_prints(struct worker *k) {
  const struct launch *launch = k->launch;
  if (k->print_count) {
    const size_t bytes = k->print_count * sizeof *k->prints;
    *launch->printed = realloc(*launch->printed, *launch->printed_bytes + bytes);
    if (!*launch->printed) abort();
    memcpy(*launch->printed + *launch->printed_bytes, k->prints, bytes);
    *launch->printed_bytes += bytes;
  }
  free(k->prints);
}

void drop_prints(uint8_t *printed) { free(printed); }
