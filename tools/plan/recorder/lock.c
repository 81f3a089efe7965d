/* seccomp: a list of grants, for no GPU driver is in this process. What is not on it traps
 * (faults.c reports it). x86-64 Linux; numbers of arch/x86/entry/syscalls/syscall_64.tbl. */
#include "recorder.h"
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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
