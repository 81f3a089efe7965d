/* Uninitialized reads: the first of each site, by thread block and thread. */
#include <string.h>
#include "machine.h"

static int earlier(const struct uninitialized *a, const struct uninitialized *b) {
  return b->block < 0 || a->block < b->block || (a->block == b->block && a->thread < b->thread);
}

static void note(struct warp *w, const struct site *site, enum space space, uint32_t lane, uint64_t address) {
  const struct uninitialized found = {.block = w->block_id, .thread = w->index * LANES + lane, .instruction = site->instruction,
                              .address = address, .size = site->size, .space = space};
  struct uninitialized *known = &w->worker->uninitialized[site->number];
  if (earlier(&found, known)) *known = found;
}

/* A shuffle takes the value of a lane that is not here. */
void note_absent(struct warp *w, const struct site *site, uint32_t lane, uint32_t from) { note(w, site, LOCAL, lane, from); }

/* flags: of the lane's first byte, one each. */
static int gap(const uint8_t *flags, uint32_t size) { return memchr(flags, 0, size) != NULL; }

/* buffer: of all lanes, or null where they are spread over several. */
void check_set(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m) {
  LANES_OF(m, l) {
    const struct buffer *mine = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!mine->starts_uninitialized || !mine->written || !gap(mine->written + (address[l] - mine->address), site->size)) continue;
    note(w, site, GLOBAL, l, address[l]);
    return;
  }
}

/* Flags of an access as one number; its address is a multiple of its size. */
#define SET ((item)0x0101010101010101ull | (sizeof(item) > 8 ? (item)0x0101010101010101ull << (sizeof(item) * 4) : 0))

void check_filled(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  const uint8_t *filled = w->worker->filled;
  uint32_t missing = 0; /* other lanes have the address of one that is there */
  BY_SIZE(EACH missing |= *(const item *)(filled + address[l]) != SET)
  if (!missing) return;
  LANES_OF(m, l) if (gap(filled + address[l], site->size)) {
    note(w, site, SHARED, l, address[l]);
    return;
  }
}

void fill(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m) {
  uint8_t *filled = w->worker->filled;
  if (filled) BY_SIZE(EACH *(item *)(filled + address[l]) = SET)
}

/* One worker at a time. */
void hand_over_unset(const struct worker *k) {
  for (uint32_t i = 0; i < program.sites; i++)
    if (k->uninitialized[i].block >= 0 && earlier(&k->uninitialized[i], &k->launch->uninitialized[i])) k->launch->uninitialized[i] = k->uninitialized[i];
}
