/* seccomp: a list of grants, for no GPU driver is in this process. What is not on it traps
 * (on_call reports it). x86-64 Linux; numbers of arch/x86/entry/syscalls/syscall_64.tbl. */
#include "recorder.h"
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { MAX_RULES = 128, DATA_BYTES = 1 << 30 };

/* Memory, locks of static variables, output, signals to itself, the end. */
static const unsigned always[] = {
    SYS_write, SYS_writev, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk,
    SYS_futex, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_getpid, SYS_gettid, SYS_fstat,
    SYS_newfstatat, SYS_lseek, SYS_exit, SYS_exit_group, SYS_close,
};
/* What the dynamic linker needs besides, and reading files only (openat, below). */
static const unsigned loading[] = {SYS_read, SYS_pread64, SYS_access, SYS_readlink, SYS_seccomp, SYS_prctl};

static struct sock_filter rules[MAX_RULES];
static unsigned short count;

static void rule(unsigned short code, unsigned char yes, unsigned char no, unsigned value) {
    rules[count++] = (struct sock_filter){code, yes, no, value};
}

static void load(size_t offset) { rule(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset); }
static void give(unsigned action) { rule(BPF_RET | BPF_K, 0, 0, action); }

static void allow(const unsigned *numbers, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        rule(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, numbers[i]);
        give(SECCOMP_RET_ALLOW);
    }
}

/* The call `number`, where its argument passes one test. */
static void allow_if(unsigned number, int argument, unsigned short test, int wanted, unsigned value) {
    rule(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, number);
    load(offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
    rule(BPF_JMP | test | BPF_K, wanted ? 0 : 1, wanted ? 1 : 0, value);
    give(SECCOMP_RET_ALLOW);
    give(SECCOMP_RET_TRAP);
}

void lock(int loaded) {
    count = 0;
    load(offsetof(struct seccomp_data, arch));
    rule(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64);
    give(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(struct seccomp_data, nr));
    allow(always, sizeof always / sizeof *always);
    if (!loaded) {
        allow(loading, sizeof loading / sizeof *loading);
        allow_if(SYS_openat, 2, BPF_JSET, 0, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
    }
    allow_if(SYS_tgkill, 0, BPF_JEQ, 1, (unsigned)getpid());
    give(SECCOMP_RET_TRAP);
    const struct rlimit most = {DATA_BYTES, DATA_BYTES};
    if (!loaded && setrlimit(RLIMIT_DATA, &most))
        broken("no limit on memory");
    const struct sock_fprog program = {count, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
        broken("the seccomp filter was not taken");
}

/* A launcher that touches device memory, or makes a system call that it may not, ends here: one
 * line of the report says what it did. */
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
