/* Races between thread blocks on global memory, as memory/block_races.py has them. A cell: site, block + 1 above it, and in the
 * highest bit whether several blocks read.
 *
 * At first cells are coarse, several workers run blocks, and it is only noted that blocks met, maybe. Then the launch is
 * run again by one worker, `precise`ly: it finds which blocks conflict. A worker that takes a cell counts it: a cell taken twice
 * at the same moment shows in the sum. */
#include <string.h>
#include "machine.h"

enum { FENCED = 1, PUBLISHED = 2, ACQUIRED = 4, FLAGGED = 8 };
#define MANY ((uint32_t)1 << 31)

static uint32_t block_of(const struct launch *launch, uint32_t cell) { return (cell & ~MANY) >> launch->site_bits; }

void block_fence(struct warp *w, uint32_t m) {
  if (m && w->launch->states) w->launch->states[w->block_id] |= FENCED;
}

void block_synchronise(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags) {
  if (!m || !w->launch->states) return;
  /* Where the grid meets: that is seen once all are there (grid.c). */
  if (w->launch->meeting_place && address[LOWEST(m)] - w->launch->meeting_place < 8) return;
  uint8_t *state = &w->launch->states[w->block_id];
  *state |= ACQUIRED | (site->releases ? FENCED : 0) | (flags ? FLAGGED : 0);
  if (*state & FENCED) *state |= PUBLISHED;
}

static int ordered(const struct warp *w, uint32_t cell, int wrote) {
  const uint8_t *states = w->launch->states;
  const int done = wrote ? PUBLISHED : PUBLISHED | FLAGGED;
  return states && states[block_of(w->launch, cell) - 1] & done && states[w->block_id] & ACQUIRED;
}

static void met(struct warp *w, const struct site *site, uint32_t lane, uint64_t address, uint32_t cell,
                uint32_t thread, int wrote) {
  struct worker *k = w->worker;
  if (ordered(w, cell, wrote)) return;
  struct fault *fault = &k->fault;
  fault->address = address, fault->other = cell;
  fault->detail[0] = wrote, fault->detail[1] = thread, fault->detail[3] = site->size, fault->detail[4] = site->writes;
  fault_at(w, BLOCK_RACE, site->instruction, lane);
}

static uint32_t mine_of(const struct warp *w, const struct site *site) {
  return (uint32_t)(w->block_id + 1) << w->launch->site_bits | w->launch->site_numbers[site->instruction];
}

static uint64_t index_of(const struct buffer *buffer, uint64_t address) {
  return (address >> buffer->cell_bits) - (buffer->address >> buffer->cell_bits);
}

static void read_cell(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane,
                      uint64_t address, uint64_t at, uint32_t mine) {
  const struct launch *launch = w->launch;
  const uint32_t wrote = buffer->writers[at], me = block_of(launch, mine);
  if (wrote && site->cached) fault_at(w, STORED_AND_CACHED, site->instruction, lane);
  if (wrote && block_of(launch, wrote) != me) met(w, site, lane, address, wrote, buffer->writer_threads[at], 1);
  if (!buffer->readers) return;
  uint32_t *reader = &buffer->readers[at];
  if (!*reader) *reader = mine, buffer->reader_threads[at] = w->index * LANES + lane;
  else if (block_of(launch, *reader) != me) *reader |= MANY;
}

void block_race_read(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                   uint32_t m) {
  const uint32_t mine = mine_of(w, site);
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->writers) continue;
    if (!w->launch->precise) {
      block_race_span_read(w, site, b, address[l], site->size);
      continue;
    }
    const uint64_t first = index_of(b, address[l]), last = index_of(b, address[l] + site->size - 1);
    for (uint64_t at = first; at <= last; at++) read_cell(w, site, b, l, address[l], at, mine);
  }
}

/* Before the store. Of what is never read only other values matter, and what was there before the launch is lost where
 * it runs again: such cells are always taken. */
static void write_cell(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane,
                       uint64_t address, uint64_t at, uint32_t mine, int changes) {
  const struct launch *launch = w->launch;
  const uint32_t wrote = buffer->writers[at], me = block_of(launch, mine);
  const int others = wrote && block_of(launch, wrote) != me;
  if (changes && others) met(w, site, lane, address, wrote, buffer->writer_threads[at], 1);
  const uint32_t read = buffer->readers ? buffer->readers[at] : 0;
  if (changes && read && (read & MANY || block_of(launch, read) != me)) met(w, site, lane, address, read, buffer->reader_threads[at], 0);
  if (changes || !(buffer->readers || others))
    buffer->writers[at] = mine, buffer->writer_threads[at] = w->index * LANES + lane;
}

void block_race_write(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                    uint32_t m, const uint8_t *values) {
  const uint32_t mine = mine_of(w, site);
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->writers) continue;
    if (!w->launch->precise) {
      block_race_span_write(w, site, b, address[l], site->size);
      continue;
    }
    const int changes = !alike(site, (const void *)address[l], values + l * site->size);
    const uint64_t first = index_of(b, address[l]), last = index_of(b, address[l] + site->size - 1);
    for (uint64_t at = first; at <= last; at++) write_cell(w, site, b, l, address[l], at, mine, changes);
  }
}

/* Bytes in a row, on coarse cells. */
void block_race_span_read(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t address,
                        uint64_t bytes) {
  const struct launch *launch = w->launch;
  const uint32_t mine = mine_of(w, site), me = block_of(launch, mine);
  const uint64_t last = index_of(buffer, address + bytes - 1);
  for (uint64_t at = index_of(buffer, address); at <= last; at++) {
    const uint32_t wrote = buffer->writers[at];
    w->worker->blocks_met |= wrote && (site->cached || block_of(launch, wrote) != me);
    if (!buffer->readers) continue;
    uint32_t *reader = &buffer->readers[at];
    if (!*reader) *reader = mine;
    else if (block_of(launch, *reader) != me) *reader |= MANY;
  }
}

void block_race_span_write(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t address,
                         uint64_t bytes) {
  const struct launch *launch = w->launch;
  const uint32_t mine = mine_of(w, site), me = block_of(launch, mine);
  const uint64_t last = index_of(buffer, address + bytes - 1);
  for (uint64_t at = index_of(buffer, address); at <= last; at++) {
    const uint32_t wrote = buffer->writers[at], read = buffer->readers ? buffer->readers[at] : 0;
    if (!wrote) buffer->writers[at] = mine, w->worker->claims++;
    else w->worker->blocks_met |= block_of(launch, wrote) != me;
    w->worker->blocks_met |= read && (read & MANY || block_of(launch, read) != me);
  }
}

void block_race_update(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                     uint32_t m) {
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->writers) continue;
    const uint64_t first = index_of(b, address[l]), last = index_of(b, address[l] + site->size - 1);
    for (uint64_t at = first; at <= last; at++) {
      const uint32_t wrote = b->writers[at];
      if (wrote && block_of(w->launch, wrote) != (uint32_t)(w->block_id + 1)) met(w, site, l, address[l], wrote, b->writer_threads[at], 1);
    }
  }
}

static uint64_t cells_of(const struct launch *launch, const struct buffer *buffer) {
  const uint64_t last = buffer->end > buffer->address ? buffer->end - 1 : buffer->address;
  return index_of(buffer, last) + 1;
}

/* All blocks have met: what they did until now is ordered before what comes. */
void block_races_restart(const struct launch *launch) {
  const uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  if (launch->states) memset(launch->states, 0, blocks);
  for (uint64_t b = 0; b < launch->buffer_count; b++) {
    const struct buffer *buffer = &launch->buffers[b];
    if (!buffer->writers) continue;
    memset(buffer->writers, 0, cells_of(launch, buffer) * sizeof *buffer->writers);
    if (buffer->readers) memset(buffer->readers, 0, cells_of(launch, buffer) * sizeof *buffer->readers);
  }
}

/* Cells that are taken; *pairs: cells that one block wrote and another read. */
uint64_t block_races_taken(const struct launch *launch, int *pairs) {
  uint64_t taken = 0;
  for (uint64_t b = 0; b < launch->buffer_count; b++) {
    const struct buffer *buffer = &launch->buffers[b];
    if (!buffer->writers) continue;
    const uint64_t count = cells_of(launch, buffer);
    uint32_t part = 0;
    for (uint64_t i = 0; i < count; i++) part += buffer->writers[i] != 0;
    taken += part;
    for (uint64_t i = 0; buffer->readers && i < count; i++) {
      const uint32_t wrote = buffer->writers[i], read = buffer->readers[i];
      *pairs |= wrote && read && (read & MANY || block_of(launch, wrote) != block_of(launch, read));
    }
  }
  return taken;
}
