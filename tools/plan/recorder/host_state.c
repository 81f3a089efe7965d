/* The state of the host in which a launcher is called, drawn for each recording: a server may call it
 * in any. Floating point: rounding, flushing of denormals, sticky exceptions; errno; blocked signals.
 * The numbers of the bits are those of tools/plan/record.py. */
#include "recorder.h"
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <xmmintrin.h>

enum { ROUNDING = 0, FLUSHED = 2, DENORMALS_ARE_ZERO = 3, EXCEPTIONS = 4, ERRNO = 10, SIGNALS = 18 };
enum { MXCSR_FLUSH = 1 << 15, MXCSR_ZERO = 1 << 6, MXCSR_MASKED = 0x3f << 7, ALL_EXCEPTIONS = 0x3f };
static const int signals[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGCHLD, SIGWINCH, SIGURG};

static struct {
    unsigned mxcsr;
    unsigned short x87;
    sigset_t blocked;
} before;

/* libstdc++ counts its users; of the first it makes std::cout and std::cerr. A candidate's files have
 * no such object: the judge's <iostream> has no code of its own (build/standard_headers.py). */
extern void make_streams(void *) __asm__("_ZNSt8ios_base4InitC1Ev");

void begin_host(const char *locale) {
    static char user;
    make_streams(&user);
    setlocale(LC_ALL, locale); /* a name that is not installed changes nothing */
}

void enter_state(uint64_t state) {
    const unsigned rounding = state >> ROUNDING & 3;
    unsigned mxcsr = MXCSR_MASKED | rounding << 13 | (state >> EXCEPTIONS & ALL_EXCEPTIONS);
    mxcsr |= (state >> FLUSHED & 1 ? MXCSR_FLUSH : 0) | (state >> DENORMALS_ARE_ZERO & 1 ? MXCSR_ZERO : 0);
    before.mxcsr = _mm_getcsr();
    __asm__ volatile("fnstcw %0" : "=m"(before.x87));
    const unsigned short x87 = (unsigned short)((before.x87 & ~0xc00) | rounding << 10);
    sigset_t blocked;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i)
        if (state >> (SIGNALS + i) & 1)
            sigaddset(&blocked, signals[i]);
    sigprocmask(SIG_SETMASK, &blocked, &before.blocked);
    errno = (int)(state >> ERRNO & 127);
    __asm__ volatile("fldcw %0" : : "m"(x87));
    _mm_setcsr(mxcsr);
}

void leave_state(void) {
    _mm_setcsr(before.mxcsr);
    __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(before.x87));
    sigprocmask(SIG_SETMASK, &before.blocked, NULL);
}
