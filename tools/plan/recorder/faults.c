/* A launcher that touches device memory, or makes a system call that it may not, ends here: one
 * line of the report says what it did. */
#include "recorder.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 16, WRITES = 2 };

static void tell(const char *text, int length) {
    /* What was begun of the call's own line is no JSON any more: Python passes over it. */
    if (write(report_file, "\n", 1) == 1 && write(report_file, text, (size_t)length) == length)
        _exit(4);
    _exit(5);
}

static void on_call(int signal_number, siginfo_t *info, void *context) {
    char text[128];
    (void)signal_number;
    (void)context;
    tell(text, snprintf(text, sizeof text, "{\"kind\":\"denied\",\"number\":%d}\n", info->si_syscall));
}

/* rdtsc and rdtscp, which main.c has forbidden; the C library's clock_gettime ends in one. */
static int reads_clock(const unsigned char *code) {
    return code[0] == 0x0f && (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9));
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    const uint64_t at = (uint64_t)(uintptr_t)info->si_addr;
    (void)signal_number;
    const ucontext_t *machine = context;
    for (size_t i = 0; current && i < current->reserved_count; ++i) {
        const struct variable *buffer = &current->reserved[i];
        if (at < buffer->address || at - buffer->address >= buffer->bytes)
            continue;
        char text[512];
        tell(text, snprintf(text, sizeof text,
                            "{\"kind\":\"touched\",\"name\":\"%.200s\",\"offset\":%llu,\"writes\":%s}\n", buffer->name,
                            (unsigned long long)(at - buffer->address),
                            machine->uc_mcontext.gregs[REG_ERR] & WRITES ? "true" : "false"));
    }
    const unsigned char *code = (const unsigned char *)(uintptr_t)machine->uc_mcontext.gregs[REG_RIP];
    if (code != info->si_addr && info->si_code == SI_KERNEL && reads_clock(code)) {
        static const char text[] = "{\"kind\":\"denied\",\"number\":228}\n";
        tell(text, sizeof text - 1);
    }
    /* SA_RESETHAND: the instruction runs again, and ends the process. */
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (number == SIGSEGV ? SA_RESETHAND : 0);
    if (sigaction(number, &action, NULL))
        broken("no signal handler");
}

void watch_faults(void) {
    stack_t other = {.ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES};
    if (!other.ss_sp || sigaltstack(&other, NULL))
        broken("no signal stack");
    signal(SIGXFSZ, SIG_DFL); /* Python, which started this process, ignores it */
    handle(SIGSEGV, on_fault);
    handle(SIGSYS, on_call);
}
