/* The machine that generated kernels run on: warps of 32 lanes, memory with checks, counters.
 *
 * A kernel is one function per warp. It runs the earliest basic block with pending lanes until all
 * lanes have ended or wait at a barrier of the thread block; then it returns. Registers that live
 * across basic blocks lie in `regs`, so nothing else has to be saved. */
#ifndef SIMT_H
#define SIMT_H
#include "lanes.h"

#define LANES 32
#define EACH for (int l = 0; l < LANES; l++)
#define ALIGNED __attribute__((aligned(64)))

enum space { GLOBAL, SHARED, LOCAL, PARAM, GENERIC, CONSTANT };
/* Where each space begins among the generic addresses: the top byte. */
enum { SHARED_WINDOW = 1, LOCAL_WINDOW = 2, PARAM_WINDOW = 4 };
enum fault_kind { NONE, OUT_OF_BOUNDS, MISALIGNED, RACE, TRAP, ASSERTION, MISSING_LANE, BARRIER_TORN, BARRIER_MIXED,
                  BARRIER_STUCK, TIMEOUT, BAD_BRANCH, MISSING_WAIT, MBARRIER, UNORDERED_MBARRIER, UNORDERED_ACCESS,
                  UNSEEN_COPY, UNARRIVED_BULK, COPY_STILL_READING, BAD_SIZE, HANG, BLOCK_RACE, GRID_HANG, BAD_FREE,
                  STORED_AND_CACHED, STILL_READ_AT_END, NOT_FENCED, WARP_RACE, EARLY_ACCESS,
                  BARRIER_ROUND, UNFINISHED_STORE };

struct buffer {
  uint64_t address, end;
  uint8_t *written;         /* one byte for each byte, or null */
  uint8_t *loaded, *stored; /* one byte for each sector, or null */
  uint32_t *writers, *readers; /* cells of block_races.c, or null */
  uint16_t *writer_threads, *reader_threads; /* of precise cells */
  uint32_t *writer_times, *reader_times; /* the same, where blocks may be ordered: block_order.c */
  uint32_t *adders, *adder_times; /* the same, of atomic updates; FLAG where somebody looks at the result */
  uint16_t *adder_threads;
  uint32_t *posted; /* like writers, of loose stores */
  uint8_t *flags;   /* where a loose load looked for a value that decides something */
  uint32_t *late_readers, *late_reader_times; /* the last of other blocks than the first that read */
  uint16_t *late_reader_threads;
  uint64_t cell_bits;          /* a cell is for so many bytes, as a power of 2 */
  uint64_t *stamp_writers, *stamp_readers, *stamp_adders; /* stamps of warp_races.c, or null */
  uint32_t *stamp_writer_times, *stamp_reader_times, *stamp_adder_times; /* the same, of kernels that have flags */
  uint64_t stamp_bits; /* a stamp is for so many bytes, as a power of 2 */
  uint64_t early; /* what a thread may do here that has not waited for the work ahead: memory/buffers.py */
  const uint8_t *allocated; /* of the device's heap: by byte, whether it may be touched; or null */
  uint64_t starts_uninitialized;/* what is not `written` is uninitialized */
  uint8_t *unfinished; /* by 16 bytes, what they wait for: memory/bulk_stores.py; or null */
};
/* A read of uninitialized memory; block: linear, or -1 for none. */
struct uninitialized {
  int64_t block;
  uint64_t address;
  uint32_t thread, instruction, size, space;
};
struct fault {
  uint32_t kind, instruction, warp, lane;
  int64_t block;
  uint64_t address, detail[5];
  uint32_t space, other;
};
struct counters {
  uint64_t lane_instructions, load_requests, load_sectors, load_wavefronts, load_bytes, store_requests, store_sectors,
      store_bytes, shared_requests, shared_wavefronts, barriers, divergent_branches, block_sectors, late_sectors,
      atomic_lanes, load_lines, store_lines, atomic_turns, local_load_requests, local_load_sectors,
      local_store_requests, local_store_sectors, local_unique_sectors, store_packets, store_packet_thirds, block_lines, match_turns,
      constant_requests, constant_words,
      /* Of the longest: */ longest_instructions, longest_cycles, longest_loads, longest_rounds, fresh_rounds, longest_matches,
      longest_constants,
      mbarrier_rounds, copy_cycles,
      longest_sleep_ns,
      hottest_turns, float_turns;
};
/* Which warp ran most instructions: of several, that of the first thread block, then the first. */
struct longest { uint64_t instructions; int64_t block; };
struct mix { uint32_t instructions, cycles, loads, rounds, turns, head, only_leaves, instruction, wait; }; /* wait: clock_waits.py */
enum { MAX_TURNS = 4, MAX_RUN = 8, FEW_TURNS = 6, MAX_ARRAYS = 4 };
struct site {
  uint32_t instruction, number;
  uint8_t size, writes, ordered, blind, releases, in_registers, cached; /* cached: ld.global.nc */
  uint8_t turns, rounds[1 + MAX_TURNS]; /* of a global load: the round of its region that waits for it, from 1, by turn */
  uint8_t run; /* stores that begin here: lowering/store_merging.py; 0 within a run */
  int64_t behind[MAX_RUN];
  uint8_t float_bytes; /* of a store of floats that the kernel computed: of each; or 0 */
  uint64_t infinity;   /* and the bits of an infinity: those of a NaN are larger, but for the sign */
  uint8_t arrays;      /* in shared memory, the only ones that it may access: lowering/shared_arrays.py; 0: any */
  struct { uint32_t start, end; } array[MAX_ARRAYS];
  uint8_t sums; /* an atomic update whose result nothing reads */
  uint8_t loose, decides; /* a load or store: lowering/ordered_accesses.py */
  uint8_t reads_data; /* an atomic operation or ordered load: lowering/data_reads.py */
};
struct barrier {
  uint32_t instruction, target, block; /* block: that it ends */
  uint8_t aligned, reduction, waits;
  const uint64_t *rejoined; /* basic blocks through which all that pass it come later, a bit each */
};
struct poll { uint32_t instruction, target; uint8_t relaxed, parity; };

/* One printf of one lane. */
enum { PRINT_BYTES = 512, MAX_PRINTS = 16384 };
struct print { int64_t block; uint64_t format, bytes; uint8_t arguments[PRINT_BYTES]; };

/* One launch, as Python describes it. */
struct launch {
  const int64_t *blocks; /* linear ids of those that run, in order */
  uint64_t block_count;
  uint32_t grid[3], block[3];
  const struct buffer *buffers; /* ordered by address */
  uint64_t buffer_count;
  const uint8_t *params;
  const uint64_t *symbols;
  uint64_t budget;
  uint32_t param_bytes, shared_limit, local_bytes, dynamic_shared, race_granule, workers;
  uint8_t **printed;       /* records of struct print, one behind the other: to be freed; null: drop them */
  uint64_t *printed_bytes;
  struct uninitialized *uninitialized; /* by site */
  uint32_t *times, *places, *clock, *pending, *looks; /* of block_order.c, for the check between blocks; or null */
  const uint32_t *site_numbers; /* of that check, by instruction */
  uint64_t watched;    /* some buffers have cells */
  uint64_t stamped;    /* some buffers have stamps */
  const uint32_t *stamp_numbers; /* of that check, by instruction */
  uint64_t programmatic; /* it may begin before the work ahead of it has ended */
  uint32_t site_bits;
  uint32_t precise; /* one worker: faults where blocks meet */
  uint32_t again;   /* an earlier part of the launch may have taken cells */
  uint32_t order_rows; /* of times and pending: a block's is its number modulo these */
  uint64_t *visits; /* by basic block: warps that entered it; null: no counters */
  uint64_t *longest; /* the same of the warp that ran most instructions */
  struct longest *longest_warp;
  struct counters *counters;
  struct fault *fault;
  uint64_t (*take)(uint64_t bytes); /* malloc and free, and whether there is a heap */
  int (*give)(uint64_t address);
  uint64_t has_heap;
  uint64_t meeting_place; /* of a cooperative launch: address of two words at which its blocks meet; or 0 */
  uint32_t reserved_at; /* where shared memory begins that is not the kernel's own; 0: there is none */
  uint32_t left_there; /* 16 bits that shared and local memory hold where nothing was written yet */
};

struct worker;
struct warp {
  uint32_t index, warps, exists, live; /* warps: of the thread block */
  uint32_t waited; /* lanes that have waited for the work ahead of the launch; all where none need */
  uint32_t tid[3][LANES] ALIGNED;
  uint32_t block[3];
  int64_t block_id;
  const struct launch *launch;
  const uint64_t *symbols;
  const uint8_t *params;
  struct worker *worker;
  uint32_t *pending; /* lanes by basic block */
  uint32_t *visits;  /* by basic block */
  uint64_t *queue;   /* which basic blocks have any */
  void *regs;
  struct copies *copies; /* cp.async copies in flight; null until the first */
  struct bulk *bulk;     /* bulk copies out of shared memory; null until the first */
  uint64_t syncs;        /* how often its lanes met since the last barrier of the block */
  uint64_t idle; /* spent on failed tests */
  uint64_t slept_ns;
  uint64_t clock_wait, clock_wait_from; /* the loop that waits for a clock, or 0, and since when */
  uint64_t empty; /* visits of blocks without an instruction that counts: a loop may be nothing else */
  const struct barrier *waits_at; /* where some of its lanes wait, or null */
  uint32_t skipped; /* lanes that went round it: they may end, but are missed there all the same */
  uint32_t back; /* the basic block where its first lanes that wait for an mbarrier will come back */
  uint64_t steps, cycles, loads, matches, constants, rounds, fresh_rounds;
  uint64_t mbarrier_rounds, copy_cycles; /* of the rounds, those waited for at mbarriers; and what copies take beyond a load */
  uint64_t pending_rounds; /* of the region that it is in: those with a sector new to the thread block, a bit each */
  uint64_t turn_ends;      /* instructions until which it may run before the block's other warps do */
  uint32_t region, turn;   /* turns of an unrolled loop share its rounds */
};

/* By the kernel's clocks: astra_vgpu/isa/clocks.py. */
#define ELAPSED(w) ((w)->steps + (w)->idle + (w)->slept_ns)
void pass_time(struct warp *w, const struct mix *mix);
void nano_sleep(struct warp *w, uint32_t m, const uint32_t *asked_ns);

/* What a generated file exports. */
struct program {
  void (*run)(struct warp *);
  const struct mix *mixes;
  uint32_t blocks, regs_bytes, sites;
  uint32_t cooperative; /* all blocks run at once */
  uint32_t looks; /* its loops look at what others store: lowering/ordered_accesses.py */
  uint32_t orders; /* it has mbarriers or bulk copies, which order some warps with some others */
};
extern const struct program program;

__attribute__((visibility("default"))) int run_launch(const struct launch *launch);

__attribute__((visibility("default"))) void drop_prints(uint8_t *printed);
void device_malloc(struct warp *w, uint32_t m, uint32_t result, uint32_t size);
void device_free(struct warp *w, uint32_t instruction, uint32_t m, uint32_t at);
void note_print(struct warp *w, uint32_t m, const uint32_t *slots);

/* Control flow. */
int next_block(struct warp *w);
uint32_t enter(struct warp *w, int block);
void send(struct warp *w, int block, uint32_t lanes);
void parted(struct warp *w);
void pause_at(struct warp *w, uint32_t target, uint32_t instruction, uint32_t m);
void arrive(struct warp *w, const struct barrier *barrier, uint32_t m, const uint32_t *number, const uint32_t *threads,
            uint32_t votes, uint32_t *result);
void stop(struct warp *w, enum fault_kind kind, uint32_t instruction, uint32_t m) __attribute__((noreturn));
void failed_assertion(struct warp *w, uint32_t instruction, uint32_t m, const uint32_t *slots) __attribute__((noreturn));

/* Memory: data has one item of the site's size for each lane. */
void load(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m, void *data);
void store(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
           const void *data);
void atomic_places(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                   uint8_t **place);
void atomic_done(struct warp *w, const struct site *site, enum space space, const uint64_t *address, uint32_t m,
                 uint8_t *const *place, const void *found);

/* Asynchronous copies; wanted: bytes that are read, null for all. */
void copy_begin(struct warp *w, const struct site *reads, const struct site *writes, const uint64_t *target,
                const uint64_t *source, uint32_t m, const uint32_t *wanted);
void copies_commit(struct warp *w, uint32_t m);
void copies_wait(struct warp *w, uint32_t m, int64_t pending, int all);

/* Barriers in shared memory. */
enum mbarrier_action { MBARRIER_INIT, MBARRIER_INVAL, MBARRIER_EXPECT, MBARRIER_COMPLETE };
enum { ARRIVE_EXPECTS = 1, ARRIVE_NO_COMPLETE = 2, ARRIVE_DROP = 4, ARRIVE_RELAXED = 8 };
void mbarrier(struct warp *w, const struct site *site, enum mbarrier_action action, const uint64_t *address,
              uint32_t m, const uint32_t *counts);
void mbarrier_arrive(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m,
                     const uint32_t *counts, uint32_t how, uint64_t *tokens);
void mbarrier_arrive_copies(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m, int extra);
void mbarrier_wait(struct warp *w, const struct poll *poll, const struct site *site, const uint64_t *address,
                   uint32_t m, const uint64_t *phase, uint32_t *result);

/* Bulk copies. */
enum bulk_reduction { BULK_COPY, BULK_ADD, BULK_MIN, BULK_MAX, BULK_AND, BULK_OR, BULK_XOR };
enum bulk_type { BULK_BITS, BULK_U32, BULK_S32, BULK_U64, BULK_S64, BULK_F32, BULK_F64, BULK_B32, BULK_B64 };
void bulk_to_shared(struct warp *w, const struct site *reads, const struct site *writes, const struct site *barrier,
                    const uint64_t *to, const uint64_t *from, const uint32_t *sizes, const uint64_t *mbarrier,
                    uint32_t m);
void bulk_to_global(struct warp *w, const struct site *reads, const struct site *writes, const uint64_t *to,
                    const uint64_t *from, const uint32_t *sizes, uint32_t m, enum bulk_reduction how,
                    enum bulk_type type);
void bulk_commit(struct warp *w, uint32_t m);
void bulk_wait(struct warp *w, uint32_t m, int64_t left, int reads_only);

/* What lanes of a warp tell each other. */
enum shuffle { SHFL_IDX, SHFL_UP, SHFL_DOWN, SHFL_BFLY };
enum vote { VOTE_BALLOT, VOTE_ALL, VOTE_ANY, VOTE_UNI };
enum reduction { REDUX_ADD, REDUX_MIN_U, REDUX_MIN_S, REDUX_MAX_U, REDUX_MAX_S, REDUX_AND, REDUX_OR, REDUX_XOR };
void members(struct warp *w, uint32_t instruction, uint32_t m, const uint32_t *named);
void shuffle(struct warp *w, const struct site *site, enum shuffle how, uint32_t m, const uint32_t *value,
             const uint32_t *lane, const uint32_t *clamp, const uint32_t *named, uint32_t *result, uint32_t *in_range);
void vote(struct warp *w, uint32_t instruction, enum vote how, uint32_t m, const uint32_t *chosen,
          const uint32_t *named, uint32_t *result);
void match(struct warp *w, uint32_t instruction, int all, uint32_t m, const uint64_t *value, const uint32_t *named,
           uint32_t *result, uint32_t *same);
void redux(struct warp *w, uint32_t instruction, enum reduction how, uint32_t m, const uint32_t *value,
           const uint32_t *named, uint32_t *result);
void elect(struct warp *w, uint32_t instruction, uint32_t m, const uint32_t *named, uint32_t *lane, uint32_t *chosen);

/* Tensor cores: which element of a matrix each lane's elements are. */
enum format { F16, BF16, TF32, F32, S8, U8, S32, F64 };
struct fragment { uint8_t format, bits, elements; const uint16_t *at; };
struct product { uint8_t m, n, k, integer, saturates, step; struct fragment a, b, c, d; };
void multiply(struct warp *w, uint32_t instruction, uint32_t m, const struct product *p, const uint32_t *const *ra,
              const uint32_t *const *rb, const uint32_t *const *rc, uint32_t *const *rd);
void multiply_doubles(struct warp *w, uint32_t instruction, uint32_t m, const struct product *p,
                      const uint64_t *const *ra, const uint64_t *const *rb, const uint64_t *const *rc, uint64_t *const *rd);
double add_directed(double a, double b, int mode);
double sub_directed(double a, double b, int mode);
double mul_directed(double a, double b, int mode);
double div_directed(double a, double b, int mode);
double rcp_directed(double a, int mode);
double sqrt_directed(double a, int mode);
double s64_directed(int64_t a, int mode);
double u64_directed(uint64_t a, int mode);
double fma_directed(double a, double b, double c, int mode);
void block_fence(struct warp *w, uint32_t m);
void shared_fence(struct warp *w, uint32_t m);
void fence_before_copies(struct warp *w, uint32_t m);
void require_whole_warp(struct warp *w, uint32_t instruction, uint32_t m);
void meet(struct warp *w, uint32_t m);
void count_constants(struct warp *w, const struct site *site, const uint64_t *address, uint32_t m);
void count_turned(struct warp *w, uint32_t m, uint32_t tiles);
void take_matrix(const void *lines, int matrix, int transposed, uint32_t *out);
void take_fragment(void *const *data, uint32_t wide, uint32_t different, uint32_t size, const uint16_t *source,
                   uint32_t elements, void *const *words, uint32_t word);
void give_fragment(void *const *data, uint32_t wide, uint32_t different, uint32_t size, const uint16_t *source,
                   uint32_t elements, void *const *words, uint32_t word);
void give_matrix(void *lines, int matrix, int transposed, const uint32_t *in);

INLINE uint32_t mask_of(const uint32_t *predicate) {
  uint32_t mask = 0;
  EACH mask |= predicate[l] << l;
  return mask;
}
/* m: the lanes that run the block; kept: those that its results are for, ended lanes included where
 * all others are here. */
#define ENTER(block) \
  const uint32_t m = enter(w, block); \
  const uint32_t kept __attribute__((unused)) = m == w->live ? ~0u : m;
/* A generated loop over lanes: no lane reads what another writes. */
#define LOOP _Pragma("GCC ivdep") EACH
#define FORK(predicate, taken, other) \
  { \
    const uint32_t yes = mask_of(predicate) & m, no = m & ~yes; \
    if (yes && no) parted(w); \
    send(w, taken, yes); \
    send(w, other, no); \
  }
#define PARAM_READ(type, at) ({ type value; __builtin_memcpy(&value, w->params + (at), sizeof value); value; })

#endif
