/* Shared by the files of the recorder process. `__init__.py` says what each holds. */
#ifndef RECORDER_H
#define RECORDER_H

#include "vcudart.h"
#include <stdio.h>

enum { MAX_NODES = 256, MAX_RESERVED = 256, MAP_BYTES = 128, MAX_RANK = 5 };

struct parameter {
    uint32_t offset, bytes;
};
/* A kernel of the cubin, and the function attributes in force. */
struct kernel {
    char *name;
    int registers, static_shared_bytes, max_threads, barriers;
    int cluster[3], max_cluster; /* compiled in; 0 where it says nothing */
    uint32_t parameter_bytes, count;
    struct parameter *parameters;
    int max_dynamic, carveout, non_portable, scheduling;
};
struct variable {
    char *name;
    uint64_t address, bytes;
};
/* One recording: a call of the launcher with stand-in addresses. */
struct call {
    uint64_t index, stream, pattern; /* what stack and parameter gaps hold before */
    uint64_t state;                  /* of the host: host_state.c */
    size_t reserved_count, word_count;
    struct variable *reserved; /* by the argument's name */
    uint64_t *words;           /* the launcher's arguments, each in the low bytes of one */
};
struct request {
    char *runtime, *library, *stub, *entry, *locale;
    size_t kernel_count, variable_count, call_count;
    struct kernel *kernels;
    struct variable *variables;
    struct call *calls;
    int lock; /* whether this kernel has seccomp */
    int lazy; /* functions that are defined nowhere may stay so, as long as nobody calls them */
};
extern struct request request;
extern const struct call *current; /* NULL outside a launcher's call */

/* request.c: ends the process with a message where the file is not as expected. */
void read_request(const char *path, struct vcudart_device *device);
struct kernel *find_kernel(const char *name);
void broken(const char *what);

/* lock.c: 0: allow what loading a library needs; 1: not that either. */
void lock(int loaded);
void watch_faults(void);

/* host_state.c: prepares the process; puts a launcher's thread into a drawn state, and back. */
void begin_host(const char *locale);
void enter_state(uint64_t state);
void leave_state(void);

/* host.c */
extern const struct vcudart_host recorder_host;
int known_memory(uint64_t address, uint64_t bytes);
extern int strayed; /* calls of this launcher for another stream than the caller's */

/* launch_limits.c: which error a launch ends with, and the first failed one of this call, which is
 * reported with the limit that it exceeds. */
struct given {
    uint64_t cluster[3];
    int clustered, programmatic, scheduling, carveout;
};
struct launch {
    const struct kernel *kernel;
    const uint32_t *grid, *block;
    uint64_t dynamic;
    int cooperative;
};
int launch_error(const struct launch *launch, const struct given *given);
int max_threads(const struct kernel *kernel);
int max_dynamic(const struct kernel *kernel);
int blocks_per_sm(const struct kernel *kernel, int threads, uint64_t dynamic);
void forget_failure(void);
void report_failure(void);

/* refused.c: notes the first of a call, and gives cudaErrorNotSupported. */
cudaError_t refuse(const char *what);
extern char refused[256];

/* main.c: the fake runtime's own version of a call that is defined here; and an error as the runtime
 * remembers it for cudaGetLastError. */
void *next_symbol(const char *name);
cudaError_t settle(int error);

/* facts.c: each name once; reported at the end, since a launcher may ask once and keep the answer. */
void note_fact(const char *name, long long value);
void report_facts(void);

/* tensor_maps.c: writes those that lie in a kernel's parameters. */
void report_maps(const unsigned char *parameters, uint32_t bytes);

/* report.c */
extern int dry; /* what is launched is not written down */
void forget_said(void);
void report_said(void);
extern FILE *report;
extern int report_file;
void open_report(const char *path);
void begin_call(const struct call *call);
void end_call(int status, int left);
void report_unloadable(const char *why);
/* Begins a node; 0 where there are too many. */
int begin_node(const char *kind);
int nodes_begun(void);
void put_text(const char *text);
void put_hex(const unsigned char *bytes, size_t count);
void put_numbers(const char *name, const uint64_t *values, size_t count);

#endif
