/* Host code that touches device memory outside a launch or a copy dies of it, as on a GPU: the pages
 * are closed to it then (by Python), and this says which buffer it was. */
#define _GNU_SOURCE
#include "vcudart.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { MAX_GUARDED = 4096 };
static struct { uint64_t address, bytes, pages; char name[64]; } guarded[MAX_GUARDED];
static int count;

EXPORT int vcudart_guard(uint64_t address, uint64_t bytes, uint64_t pages, const char *name) {
    if (count == MAX_GUARDED)
        return 0;
    guarded[count].address = address;
    guarded[count].bytes = bytes;
    guarded[count].pages = pages;
    snprintf(guarded[count++].name, sizeof guarded->name, "%s", name);
    return 1;
}

EXPORT void vcudart_unguard(uint64_t address) {
    for (int i = 0; i < count; ++i)
        if (guarded[i].address == address) {
            guarded[i] = guarded[--count];
            return;
        }
}

static const char *what_it_did(const void *context) {
#ifdef __x86_64__
    const ucontext_t *machine = context;
    return machine->uc_mcontext.gregs[REG_ERR] & 2 ? "writes to" : "reads";
#else
    (void)context;
    return "touches";
#endif
}

/* The instruction runs again when this returns, and then kills the process. */
static void on_fault(int signal_number, siginfo_t *info, void *context) {
    const uint64_t at = (uint64_t)(uintptr_t)info->si_addr;
    for (int i = 0; i < count; ++i) {
        if (at < guarded[i].address || at >= guarded[i].address + guarded[i].pages)
            continue;
        char words[320];
        int length = snprintf(words, sizeof words,
                              "virtual GPU: host code %s device memory: %s of %llu bytes, offset %llu; "
                              "on a GPU this is a segmentation fault (use cudaMemcpy)\n",
                              what_it_did(context), guarded[i].name, (unsigned long long)guarded[i].bytes,
                              (unsigned long long)(at - guarded[i].address));
        if (write(2, words, (size_t)length) < 0)
            break;
    }
    signal(signal_number, SIG_DFL);
}

EXPORT int vcudart_watch(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    return sigaction(SIGSEGV, &action, NULL);
}
