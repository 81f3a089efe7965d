/* The runtime's own view of a worker: one thread of the host, which runs thread blocks. */
#ifndef MACHINE_H
#define MACHINE_H
#include <setjmp.h>
#include <stddef.h>
#include "simt.h"

#define REGION_BYTES 512
enum { FLOAT_ATOMIC = 2, COUNT_ATOMIC }; /* site.ordered */
#define FLOAT_TRIES 3
#define FLYING_BULK (1 << 16) /* what a bulk copy adds to the copies in flight to a word */

struct arrival {
  struct warp *warp;
  const struct barrier *barrier;
  uint32_t number, threads, counted, mask, votes;
  uint32_t *result;
};
/* Lanes that wait for other blocks, and where they continue. */
struct pause { struct warp *warp; uint32_t target, instruction, lanes; };
/* When a sector was last read or written: by which thread block, as a number from 1, in which round of loads. */
struct touch { uint32_t turn, round; };
struct worker {
  const struct launch *launch;
  uint8_t *shared, *local;
  size_t local_stride; /* of a lane */
  struct warp *warps;
  uint32_t warp_count;
  struct arrival *arrivals;
  size_t arrived, room;
  uint32_t number, workers; /* of the workers, from 0, and how many there may be */
  uint64_t stamp_epoch; /* of warp_races.c: no other worker or block ever has it */
  uint32_t released[LANES], acquired[LANES], flag_places[64], flag_clock; /* what orders its warps there, by warp and place */
  uint64_t *writer, *reader, *adder; /* race check: a stamp for each granule of shared memory, or null */
  uint32_t epoch, granule_bits;
  uint16_t fenced[LANES], posted[LANES], seen[LANES][LANES]; /* by warp, in meetings: what orders warps there since a barrier */
  uint32_t *flying; /* by word of shared memory: copies in flight to it; null until the first */
  int64_t in_flight;
  uint32_t *unread; /* by word: bulk copies out of shared memory that still read it; null until the first */
  int64_t reading;
  struct order *order; /* race check of kernels with mbarriers, or null */
  struct mbarriers *mbarriers;
  uint8_t *filled; /* by byte of shared memory: has a store been there? */
  struct uninitialized *uninitialized; /* by site */
  uint64_t claims;     /* cells of block_races.c that it took */
  uint32_t blocks_met;    /* blocks met */
  const struct buffer **hints; /* by site: where its last access fell */
  uint64_t *visits, *longest;
  struct longest longest_warp;
  struct touch **touched; /* by buffer and sector */
  uint8_t *local_touched; /* by warp, word of a lane and eight lanes; null until the first */
  uint64_t **atomics; /* by buffer and sector: turns, and turns of floats */
  uint32_t turn;      /* number of the thread block */
  uint64_t lines[LANES + 1]; /* of the request, those with a sector that is new to the block */
  uint32_t line_count;
  struct pause *paused;
  size_t pauses, pause_room;
  uint64_t paused_before; /* checksum of the waiting lanes when they continued last */
  uint32_t failed_polls;          /* failed polls since the last success */
  struct print *prints; /* what the lanes print; null until the first */
  size_t print_count;
  struct counters counters;
  struct fault fault;
  jmp_buf stopped;
};

void fault_at(struct warp *w, enum fault_kind kind, uint32_t instruction, uint32_t lane) __attribute__((noreturn));
void hand_over_prints(struct worker *k);
/* Whether an access of the site stores what is there: NaNs of floats are alike. */
int alike(const struct site *site, const void *one, const void *other);
int run_on(struct worker *k);
uint32_t resume_alone(struct worker *k, uint32_t failed_polls);
const struct arrival *waiting_at_barrier(const struct worker *k);
int open_some(struct worker *k);
const struct fault *run_together(const struct launch *launch, struct worker *blocks);
/* What 16 bytes of a buffer that bulk copies write to wait for. */
enum { FINISHED, COPIED, REDUCED };
static inline uint8_t *unfinished_at(const struct buffer *b, uint64_t address) {
  return b->unfinished + ((address >> 4) - (b->address >> 4));
}
void block_races_restart(const struct launch *launch);
void race_read(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void race_copy_begins(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void race_bulk_copy_begins(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size, const uint8_t *data);
void race_write(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, const uint8_t *before,
                const uint8_t *values, const uint8_t *after);
void race_update(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, uint32_t changed);
void next_epoch(struct worker *k);
void warp_races_begin(struct worker *k);
void warp_races_advance(struct worker *k);
void warp_synchronise(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags);
void warp_race_read(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m);
void warp_race_write(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m,
                     const uint8_t *values);
void warp_race_update(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m);
void copies_forget(struct warp *w);
void copies_free(struct warp *w);
void copies_deliver(struct warp *w, uint32_t lanes, uint64_t before);
uint64_t copies_serial(struct warp *w);
void flying_set_up(struct worker *k);
void check_span_arrived(struct warp *w, const struct site *site, uint32_t lane, uint64_t start, uint64_t size);
void bulk_forget(struct warp *w);
void bulk_check_done(struct warp *w);
void bulk_free(struct warp *w);
void check_unread(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void mbarriers_forget(struct worker *k);
void mbarriers_free(struct worker *k);
int polls_waiting(const struct worker *k);
int polls_pass(struct worker *k);
void polls_fail(struct worker *k);
void check_in_vain(struct worker *k);
void order_set_up(struct worker *k);
void order_tear_down(struct worker *k);
void order_advance(struct worker *k);
void shared_flag(struct warp *w);
void order_meet(struct warp *w, uint32_t m);
void order_forget(struct worker *k);
void ordered_read(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void ordered_write(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, const uint8_t *before,
                   const uint8_t *values);
void shared_places(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
int holds_span(const struct warp *w, uint64_t address, uint64_t size);
void count_span(struct warp *w, const struct site *site, uint64_t address, uint64_t size);
const struct buffer *find_buffer(const struct launch *launch, uint64_t address);
int not_allocated(const struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                  uint32_t m);
/* flags: it stores something for others to see. */
void block_synchronise(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int flags);
void block_order_meet(struct worker *k, const uint32_t *arrived);
void block_order_all_meet(struct worker *k);
void block_order_restart(const struct launch *launch);
uint32_t block_order_now(const struct launch *launch);
int block_ordered(const struct warp *w, uint64_t first, uint32_t thread, uint32_t when, int wrote);
void block_race_read(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                   uint32_t m);
void block_race_write(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                    uint32_t m, const uint8_t *values);
void block_race_span_read(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t address,
                        uint64_t bytes);
void block_race_span_write(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t address,
                         uint64_t bytes);
void block_race_update(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address,
                     uint32_t m);
void block_race_flag(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m);
uint64_t block_races_taken(const struct launch *launch, int *pairs);
void check_set(struct warp *w, const struct site *site, const struct buffer *buffer, const uint64_t *address, uint32_t m);
void check_filled(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void note_absent(struct warp *w, const struct site *site, uint32_t lane, uint32_t from);
void fill(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void hand_over_unset(const struct worker *k);
void check_arrived(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
static inline size_t local_words(const struct launch *launch) { return (launch->local_bytes + 3) / 4; }
void count_local(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void count_shared(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void count_shared_atomics(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void count_touched(struct warp *w, const struct site *site, const struct buffer *buffer, uint64_t first, uint64_t last);
void count_atomics(struct warp *w, const struct site *site, const struct buffer *const *buffers, const uint64_t *address,
                   uint32_t m);
void count_regions(struct worker *k);
void gather_atomics(const struct launch *launch, struct worker *blocks);
void count_span_packets(struct warp *w, uint64_t sectors, uint64_t lines, uint64_t bytes);
uint64_t fresh_rounds(const struct warp *w);
void count_match(struct warp *w, uint32_t m, const uint32_t *result);
void count_global(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);

#define LOWEST(mask) ((uint32_t)__builtin_ctz(mask))
#define LANES_OF(mask, l) for (uint32_t left_ = (mask), l; left_ && ((l = LOWEST(left_)), 1); left_ &= left_ - 1)
/* `body` with `item` an integer of an access's size; needs `site`. */
#define BY_SIZE(body) \
  switch (site->size) { \
    case 1: { typedef uint8_t item; body; } break; \
    case 2: { typedef uint16_t item; body; } break; \
    case 4: { typedef uint32_t item; body; } break; \
    case 8: { typedef uint64_t item; body; } break; \
    default: { typedef unsigned __int128 item; body; } }

#endif
