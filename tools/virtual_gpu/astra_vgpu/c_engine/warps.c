/* Instructions in which the lanes of a warp see each other; as text as warps.py has them. */
#include "machine.h"

/* Faults if a lane that the mask names is alive but not here, or one here is not named. Several
 * groups of a warp may be here at once, each with its own mask: those are not checked. */
void members(struct warp *w, uint32_t instruction, uint32_t m, const uint32_t *named) {
  if (!m) return;
  meet(w, m);
  uint32_t mask = 0, agree = 1, unnamed = 0;
  LANES_OF(m, l) mask = named[l] > mask ? named[l] : mask;
  LANES_OF(m, l) {
    agree &= named[l] == mask;
    unnamed |= (~named[l] >> l & 1) << l;
  }
  if (!agree) return;
  const uint32_t wanted = m & ~unnamed ? mask & w->live : 0;
  const uint32_t missing = (wanted & ~m) | unnamed;
  if (missing) fault_at(w, MISSING_LANE, instruction, LOWEST(missing));
}

void shuffle(struct warp *w, const struct site *site, enum shuffle how, uint32_t m, const uint32_t *value,
             const uint32_t *lane, const uint32_t *clamp, const uint32_t *named, uint32_t *result,
             uint32_t *in_range) {
  if (!m) return;
  members(w, site->instruction, m, named);
  EACH {
    const int b = lane[l] & 31, c = clamp[l] & 31, segment = clamp[l] >> 8 & 31;
    const int lowest = l & segment, highest = lowest | (c & ~segment & 31);
    const int target = how == SHFL_IDX ? (lowest | (b & ~segment & 31)) : how == SHFL_UP ? l - b
                       : how == SHFL_DOWN ? l + b : l ^ b;
    const int inside = how == SHFL_UP ? target >= highest : target <= highest;
    const int from = (inside ? target : l) & 31;
    result[l] = m >> from & 1 ? value[from] : ~0u; /* PTX knows no value of a lane that is not here: a NaN */
    if (m >> l & 1 && !(m >> from & 1)) note_absent(w, site, l, from);
    in_range[l] = inside;
  }
}

void vote(struct warp *w, uint32_t instruction, enum vote how, uint32_t m, const uint32_t *chosen,
          const uint32_t *named, uint32_t *result) {
  if (!m) return;
  members(w, instruction, m, named);
  const uint32_t ballot = mask_of(chosen) & m;
  EACH {
    const uint32_t group = named[l] & m, votes = ballot & group;
    const uint32_t all = votes == group, any = votes != 0;
    result[l] = how == VOTE_BALLOT ? votes : how == VOTE_ALL ? all : how == VOTE_ANY ? any : (all | !any);
  }
}

void match(struct warp *w, uint32_t instruction, int all, uint32_t m, const uint64_t *value, const uint32_t *named,
           uint32_t *result, uint32_t *same) {
  if (!m) return;
  members(w, instruction, m, named);
  EACH {
    uint32_t equal = 0;
    for (int k = 0; k < LANES; k++) equal |= (uint32_t)(value[k] == value[l]) << k;
    const uint32_t group = named[l] & m, mine = equal & group;
    same[l] = mine == group;
    result[l] = all ? (same[l] ? group : 0) : mine;
  }
  if (!all) count_match(w, m, result);
}

static uint32_t joined(enum reduction how, uint32_t a, uint32_t b) {
  switch (how) {
    case REDUX_ADD: return a + b;
    case REDUX_MIN_U: return a < b ? a : b;
    case REDUX_MIN_S: return (int32_t)a < (int32_t)b ? a : b;
    case REDUX_MAX_U: return a > b ? a : b;
    case REDUX_MAX_S: return (int32_t)a > (int32_t)b ? a : b;
    case REDUX_AND: return a & b;
    case REDUX_OR: return a | b;
    default: return a ^ b;
  }
}

void redux(struct warp *w, uint32_t instruction, enum reduction how, uint32_t m, const uint32_t *value,
           const uint32_t *named, uint32_t *result) {
  if (!m) return;
  members(w, instruction, m, named);
  LANES_OF(m, lane) {
    const uint32_t group = named[lane] & m;
    uint32_t total = 0, first = 1;
    LANES_OF(group, each) {
      total = first ? value[each] : joined(how, total, value[each]);
      first = 0;
    }
    result[lane] = total;
  }
}

void elect(struct warp *w, uint32_t instruction, uint32_t m, const uint32_t *named, uint32_t *lane, uint32_t *chosen) {
  if (!m) return;
  members(w, instruction, m, named);
  EACH {
    const uint32_t group = named[l] & m;
    lane[l] = group ? LOWEST(group) : 32;
    chosen[l] = lane[l] == (uint32_t)l;
  }
}
