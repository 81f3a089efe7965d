/* Races between thread blocks on global memory, as memory/block_races.py has them. A cell: site, block + 1 above it, and in the
 * highest bit whether several blocks read, or wrote the same value.
 *
 * At first cells are coarse, several workers run blocks, and it is only noted that blocks met, maybe. Then the launch is
 * run again by one worker, `precise`ly: it finds which blocks conflict. A worker that takes a cell counts it: a cell taken twice
 * at the same moment shows in the sum. */
#include <string.h>
#include "machine.h"

#define MANY ((uint32_t)1 << 31)
#define FLAG MANY /* of a cell of updates: somebody looks at the result */

static uint32_t block_of(const struct launch *launch, uint32_t cell) { return (cell & ~MANY) >> launch->site_bits; }

enum did { READ, WROTE, ADDED, POSTED, READ_LATE };

static uint32_t cell_of(const struct buffer *buffer, uint64_t at, enum did did) {
  const uint32_t *cells[] = {buffer->readers, buffer->writers, buffer->adders, buffer->posted, buffer->late_readers};
  return cells[did][at];
}

static const uint16_t *threads_of(const struct buffer *buffer, enum did did) {
  return did == READ_LATE ? buffer->late_reader_threads : did == ADDED ? buffer->adder_threads : did == READ ? buffer->reader_threads : buffer->writer_threads;
}

/* Whether what the cell holds comes before what the warp does now. */
static int is_ordered(const struct warp *w, const struct buffer *buffer, uint64_t at, enum did did) {
  const uint32_t *all[] = {buffer->reader_times, buffer->writer_times, buffer->adder_times, buffer->writer_times, buffer->late_reader_times};
  const uint32_t *times = all[did];
  const uint64_t block = block_of(w->launch, cell_of(buffer, at, did)) - 1;
  return times && block_ordered(w, block, threads_of(buffer, did)[at], times[at], did != READ && did != READ_LATE);
}

static void met(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane, uint64_t address,
                uint64_t at, enum did did) {
  struct worker *k = w->worker;
  const uint32_t cell = cell_of(buffer, at, did), thread = threads_of(buffer, did)[at];
  if (is_ordered(w, buffer, at, did)) return;
  struct fault *fault = &k->fault;
  fault->address = address;
  fault->other = cell;
  fault->detail[0] = did == POSTED ? WROTE : did == READ_LATE ? READ : did;
  fault->detail[1] = thread;
  fault->detail[3] = site->size;
  fault->detail[4] = site->writes;
  fault_at(w, BLOCK_RACE, site->instruction, lane);
}

static uint32_t mine_of(const struct warp *w, const struct site *site) {
  return (uint32_t)(w->block_id + 1) << w->launch->site_bits | w->launch->site_numbers[site->instruction];
}

static uint64_t index_of(const struct buffer *buffer, uint64_t address) {
  return (address >> buffer->cell_bits) - (buffer->address >> buffer->cell_bits);
}

static int added_by_others(const struct launch *launch, const struct buffer *buffer, uint64_t at, uint32_t me) {
  return buffer->adders && buffer->adders[at] && buffer->adders[at] != FLAG && block_of(launch, buffer->adders[at]) != me;
}

/* A load for data, of what another block stored loosely. */
static void look(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane, uint64_t address,
                 uint64_t at, uint32_t me) {
  if (!buffer->posted || buffer->flags[at] || !buffer->posted[at]) return;
  if (block_of(w->launch, buffer->posted[at]) != me) met(w, site, buffer, lane, address, at, POSTED);
}

static void note_reader(struct warp *w, const struct buffer *buffer, uint32_t lane, uint64_t at, uint32_t mine) {
  uint32_t *reader = &buffer->readers[at];
  if (*reader) {
    if (block_of(w->launch, *reader) == block_of(w->launch, mine)) return;
    *reader |= MANY;
    if (!buffer->late_readers) return;
    buffer->late_readers[at] = mine;
    buffer->late_reader_threads[at] = w->index * LANES + lane;
    buffer->late_reader_times[at] = block_order_now(w->launch);
    return;
  }
  *reader = mine;
  buffer->reader_threads[at] = w->index * LANES + lane;
  if (buffer->reader_times) buffer->reader_times[at] = block_order_now(w->launch);
}

static void read_cell(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane,
                      uint64_t address, uint64_t at, uint32_t mine) {
  const struct launch *launch = w->launch;
  const uint32_t wrote = buffer->writers[at], me = block_of(launch, mine);
  look(w, site, buffer, lane, address, at, me);
  if (wrote && site->cached) fault_at(w, STORED_AND_CACHED, site->instruction, lane);
  if (wrote && block_of(launch, wrote) != me) met(w, site, buffer, lane, address, at, WROTE);
  if (added_by_others(launch, buffer, at, me)) met(w, site, buffer, lane, address, at, ADDED);
  if (buffer->readers) note_reader(w, buffer, lane, at, mine);
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

/* Before the store; one of what is there already counts as a read. Where nothing reads, and nothing orders blocks, such cells
 * are always taken, as what was there before the launch is lost where it runs again, and it is noted that several wrote. */
static void write_cell(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane,
                       uint64_t address, uint64_t at, uint32_t mine, int changes) {
  const struct launch *launch = w->launch;
  const uint32_t wrote = buffer->writers[at], me = block_of(launch, mine);
  const int others = wrote && block_of(launch, wrote) != me;
  if (changes && (others || wrote & MANY)) met(w, site, buffer, lane, address, at, WROTE);
  if (changes && added_by_others(launch, buffer, at, me)) met(w, site, buffer, lane, address, at, ADDED);
  const uint32_t read = buffer->readers ? buffer->readers[at] : 0;
  if (changes && read && (read & MANY || block_of(launch, read) != me)) met(w, site, buffer, lane, address, at, READ);
  const uint32_t late = buffer->late_readers ? buffer->late_readers[at] : 0;
  if (changes && late && block_of(launch, late) != me) met(w, site, buffer, lane, address, at, READ_LATE);
  if (!changes && (buffer->readers || others)) {
    if (buffer->readers) note_reader(w, buffer, lane, at, mine);
    else buffer->writers[at] |= MANY;
    return;
  }
  buffer->writers[at] = mine;
  buffer->writer_threads[at] = w->index * LANES + lane;
  if (buffer->writer_times) buffer->writer_times[at] = block_order_now(launch);
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
    if (!wrote) {
      buffer->writers[at] = mine;
      w->worker->claims++;
    } else {
      w->worker->blocks_met |= block_of(launch, wrote) != me;
    }
    w->worker->blocks_met |= read && (read & MANY || block_of(launch, read) != me);
  }
}

/* Of several updates the first counts that nothing has ordered before later ones. */
static void add(struct warp *w, const struct buffer *buffer, uint32_t lane, uint64_t at) {
  const uint32_t me = w->block_id + 1;
  if (buffer->adders[at] == FLAG) return;
  if (added_by_others(w->launch, buffer, at, me) && !is_ordered(w, buffer, at, ADDED)) return;
  buffer->adders[at] = me << w->launch->site_bits;
  buffer->adder_threads[at] = w->index * LANES + lane;
  buffer->adder_times[at] = block_order_now(w->launch);
}

static void note_loose(struct warp *w, const struct site *site, const struct buffer *buffer, uint32_t lane,
                       uint64_t address, uint64_t at, uint32_t mine) {
  if (!site->writes && site->decides) buffer->flags[at] = 1;
  else if (!site->writes) look(w, site, buffer, lane, address, at, block_of(w->launch, mine));
  else {
    buffer->posted[at] = mine;
    buffer->writer_threads[at] = w->index * LANES + lane;
    buffer->writer_times[at] = block_order_now(w->launch);
  }
}

/* An ordered access: at a flag, what is updated there is not only data; or for data. It matters whether it is loose. */
void block_race_flag(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m) {
  const uint32_t mine = mine_of(w, site);
  LANES_OF(m, l) {
    const struct buffer *b = buffer ? buffer : find_buffer(w->launch, address[l]);
    if (!b->writers || !b->adders) continue;
    const uint64_t last = index_of(b, address[l] + site->size - 1);
    for (uint64_t at = index_of(b, address[l]); at <= last; at++) {
      if (!site->reads_data) b->adders[at] = FLAG;
      else if (added_by_others(w->launch, b, at, block_of(w->launch, mine))) met(w, site, b, l, address[l], at, ADDED);
      if (site->loose && b->posted) note_loose(w, site, b, l, address[l], at, mine);
    }
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
      if (wrote && block_of(w->launch, wrote) != (uint32_t)(w->block_id + 1)) met(w, site, b, l, address[l], at, WROTE);
      if (b->adders && site->sums) add(w, b, l, at);
    }
  }
  if (!site->sums) block_race_flag(w, site, buffer, address, m);
}

static uint64_t cells_of(const struct launch *launch, const struct buffer *buffer) {
  const uint64_t last = buffer->end > buffer->address ? buffer->end - 1 : buffer->address;
  return index_of(buffer, last) + 1;
}

/* All blocks have met: what they did until now is ordered before what comes. */
void block_races_restart(const struct launch *launch) {
  block_order_restart(launch);
  for (uint64_t b = 0; b < launch->buffer_count; b++) {
    const struct buffer *buffer = &launch->buffers[b];
    if (!buffer->writers) continue;
    memset(buffer->writers, 0, cells_of(launch, buffer) * sizeof *buffer->writers);
    if (buffer->readers) memset(buffer->readers, 0, cells_of(launch, buffer) * sizeof *buffer->readers);
    if (buffer->late_readers) memset(buffer->late_readers, 0, cells_of(launch, buffer) * sizeof *buffer->late_readers);
    if (buffer->adders) memset(buffer->adders, 0, cells_of(launch, buffer) * sizeof *buffer->adders);
    if (buffer->posted) memset(buffer->posted, 0, cells_of(launch, buffer) * sizeof *buffer->posted);
    if (buffer->flags) memset(buffer->flags, 0, cells_of(launch, buffer));
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
