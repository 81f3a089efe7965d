/* `recorder REQUEST REPORT PRINTED`: calls a launcher with stand-in addresses and reports what it
 * asked of CUDA. Exits 0 when all calls were made; 3 where the request or the machine is at fault;
 * 4 where lock.c reported why it ended. */
#include "recorder.h"
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 16, SHIFTS = 256, SHIFT_BYTES = 64, PAGE = 4096 };

typedef int (*stub_type)(void *launcher, const uint64_t *words);

const struct call *current;
struct vcudart_device vcudart_device;
static void *runtime;

static void *required(void *found) {
    if (!found) {
        const char *why = dlerror();
        broken(why ? why : "something is missing");
    }
    return found;
}

void *next_symbol(const char *name) { return required(dlsym(runtime, name)); }

cudaError_t settle(int error) {
    static cudaError_t (*result)(int);
    if (!result)
        *(void **)&result = next_symbol("vcudart_result");
    return result(error);
}

/* Of the candidate's library: what is missing there is the candidate's fault. */
static void *offered(void *found) {
    if (!found) {
        const char *why = dlerror();
        report_unloadable(why ? why : "no reason");
        _exit(4);
    }
    return found;
}

static void print_to(const char *path) {
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0)
        broken("cannot write what the launcher prints");
    close(file);
}

/* Guard pages around a buffer: a stand-in for device memory. */
static void reserve(const struct variable *buffer, int on) {
    const uint64_t start = buffer->address / PAGE * PAGE;
    const uint64_t end = (buffer->address + buffer->bytes + PAGE - 1) / PAGE * PAGE;
    const uint64_t bytes = end > start ? end - start : PAGE;
    void *at = (void *)(uintptr_t)start;
    if (!on)
        munmap(at, bytes);
    else if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != at)
        broken("a stand-in address is taken");
}

static void __attribute__((noinline)) fill_stack(int pattern) {
    volatile unsigned char room[STACK_BYTES];
    for (size_t i = 0; i < sizeof room; ++i)
        room[i] = (unsigned char)pattern;
}

/* The launcher finds its stack filled with a pattern, at another depth each time, and the host in a
 * drawn state. */
static int __attribute__((noinline)) launch(stub_type stub, void *launcher, const struct call *call) {
    volatile char *shift = alloca((call->pattern / SHIFTS % SHIFTS + 1) * SHIFT_BYTES);
    shift[0] = 0;
    enter_state(call->state);
    fill_stack((int)(call->pattern % SHIFTS)); /* last: what others leave on the stack are addresses */
    const int status = stub(launcher, call->words);
    leave_state();
    return status;
}

static void record(stub_type stub, void *launcher, const struct call *call) {
    static void (*reset)(void), (*expect)(uint64_t);
    static int (*elsewhere)(void);
    static cudaError_t (*peek)(void);
    if (!reset) {
        *(void **)&reset = next_symbol("vcudart_reset");
        *(void **)&expect = next_symbol("vcudart_expect");
        *(void **)&elsewhere = next_symbol("vcudart_strayed");
        *(void **)&peek = next_symbol("cudaPeekAtLastError");
    }
    for (size_t i = 0; i < call->reserved_count; ++i)
        reserve(&call->reserved[i], 1);
    reset();
    expect(call->stream);
    refused[0] = 0;
    strayed = 0;
    current = call;
    forget_failure();
    forget_said();
    begin_call(call);
    const int status = launch(stub, launcher, call);
    strayed += elsewhere();
    end_call(status, (int)peek());
    current = NULL;
    for (size_t i = 0; i < call->reserved_count; ++i)
        reserve(&call->reserved[i], 0);
}

int main(int argc, char **argv) {
    if (argc != 4)
        broken("three arguments are needed");
    read_request(argv[1], &vcudart_device);
    open_report(argv[2]);
    print_to(argv[3]);
    runtime = required(dlopen(request.runtime, RTLD_NOW | RTLD_GLOBAL));
    void *caller = required(dlopen(request.stub, RTLD_NOW));
    stub_type stub;
    *(void **)&stub = required(dlsym(caller, "astra_call"));
    void (*attach)(const struct vcudart_host *, const struct vcudart_device *);
    int (*adopt)(int);
    *(void **)&attach = next_symbol("vcudart_attach");
    *(void **)&adopt = next_symbol("vcudart_adopt");
    attach(&recorder_host, &vcudart_device);
    for (size_t i = 0; i < request.variable_count; ++i)
        reserve(&request.variables[i], 1);
    begin_host(request.locale);
    watch_faults();
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0); /* what a clock says is no fact of a launch */
    if (request.lock)
        lock(0);
    fputs("{\"kind\":\"ready\"}\n", report);
    fflush(report);
    void *library = offered(dlopen(request.library, request.lazy ? RTLD_LAZY : RTLD_NOW));
    adopt(0);
    void *launcher = offered(dlsym(library, request.entry));
    if (refused[0]) {
        report_unloadable(refused);
        _exit(4);
    }
    if (request.lock)
        lock(1);
    for (size_t i = 0; i < request.call_count; ++i)
        record(stub, launcher, &request.calls[i]);
    report_facts();
    fflush(report);
    _exit(0);
}
