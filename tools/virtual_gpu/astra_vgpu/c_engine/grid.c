/* Cooperative launches: all thread blocks run at once, in turns, and wait for each other (grid_sync.py says how). */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

#define PATIENCE 32 /* failed polls of all waiting lanes before lanes continue without the others of their warp */
#define MAX_FAILED_POLLS 1000
#define ARRIVED ((uint32_t)1 << 31) /* the bit of the grid's second word that turns with each sync */

void pause_at(struct warp *w, uint32_t target, uint32_t instruction, uint32_t m) {
  struct worker *k = w->worker;
  if (k->pauses == k->pause_room) {
    k->pause_room = 2 * k->pause_room + 32;
    if (!(k->paused = realloc(k->paused, k->pause_room * sizeof *k->paused))) abort();
  }
  k->paused[k->pauses++] = (struct pause){w, target, instruction, m};
  if (k->failed_polls < PATIENCE && target < w->back) w->back = target;
}

/* The same lanes before the same instructions as when they continued last? */
static int is_hanging(struct worker *k) {
  uint64_t sum = k->pauses;
  for (size_t i = 0; i < k->pauses; i++) {
    const struct pause *p = &k->paused[i];
    uint64_t one = ((uint64_t)p->target << 16 ^ p->warp->index) * 0x9E3779B97F4A7C15u;
    sum += (one ^ one >> 29 ^ p->lanes) * 0xBF58476D1CE4E5B9u;
  }
  const int same = sum == k->paused_before;
  k->paused_before = sum;
  return same;
}

/* Is somebody among them whom a clock will let go? */
static int waits_for_clock(const struct worker *k) {
  for (size_t i = 0; i < k->pauses; i++)
    if (k->paused[i].warp->clock_wait) return 1;
  return 0;
}

static void resume(struct worker *k, uint32_t failed_polls) {
  k->failed_polls = failed_polls;
  for (size_t i = 0; i < k->pauses; i++) k->paused[i].warp->back = UINT32_MAX;
  for (size_t i = 0; i < k->pauses; i++) send(k->paused[i].warp, k->paused[i].target, k->paused[i].lanes);
  k->pauses = 0;
}

static void stop_hanging(struct worker *k) {
  const struct pause *first = k->paused;
  for (size_t i = 1; i < k->pauses; i++) {
    const struct pause *p = &k->paused[i];
    if (p->warp->index * LANES + LOWEST(p->lanes) < first->warp->index * LANES + LOWEST(first->lanes)) first = p;
  }
  fault_at(first->warp, GRID_HANG, first->instruction, LOWEST(first->lanes));
}

/* Warps of a tile that wait for each other, in a block that runs by itself: the failed polls so far. */
uint32_t resume_alone(struct worker *k, uint32_t failed_polls) {
  failed_polls = is_hanging(k) ? failed_polls + 1 : 0;
  if (failed_polls > MAX_FAILED_POLLS && !waits_for_clock(k)) stop_hanging(k);
  resume(k, failed_polls);
  return failed_polls;
}

/* What all blocks did before they met comes before what they do after. */
static void see_sync(const struct launch *launch, uint32_t *turned) {
  if (!launch->meeting_place) return;
  const uint32_t word = ((const uint32_t *)launch->meeting_place)[1] & ARRIVED;
  if (word == *turned) return;
  *turned = word;
  block_races_restart(launch);
}

/* Whether the block still waits for others. A fault is noted in its worker. */
static int turn(struct worker *k) {
  if (setjmp(k->stopped)) return 0;
  return run_on(k);
}

static int fails_hanging(struct worker *k) {
  if (!setjmp(k->stopped)) stop_hanging(k);
  return 1;
}

/* Returns the fault of the first block that had one, or null. */
const struct fault *run_together(const struct launch *launch, struct worker *blocks) {
  uint32_t turned = 0, failed_polls = 0;
  uint8_t *open = malloc(launch->block_count);
  if (!open) abort();
  memset(open, 1, launch->block_count);
  const struct fault *fault = NULL;
  for (uint64_t left = launch->block_count; left && !fault;) {
    int same = 1, timed = 0;
    left = 0;
    for (uint64_t b = 0; b < launch->block_count && !fault; b++) {
      if (!open[b]) continue;
      open[b] = turn(&blocks[b]);
      left += open[b];
      if (!open[b]) {
        same = 0;
      } else {
        same &= is_hanging(&blocks[b]);
        timed |= waits_for_clock(&blocks[b]);
      }
      if (blocks[b].fault.kind != NONE) fault = &blocks[b].fault;
    }
    if (!left || fault) break;
    see_sync(launch, &turned);
    failed_polls = same ? failed_polls + 1 : 0;
    for (uint64_t b = 0; b < launch->block_count; b++) {
      if (!open[b]) continue;
      if (failed_polls > MAX_FAILED_POLLS && !timed && fails_hanging(&blocks[b])) fault = &blocks[b].fault;
      if (fault) break;
      resume(&blocks[b], failed_polls);
    }
  }
  free(open);
  return fault;
}
