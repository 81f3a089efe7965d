// What hostile host code tries, one attempt per value of `tokens`; out[0] is the call's result and
// out[1] its errno. SECRET and STRAY are set by the test. Never passes the guard: it is run without.
#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int opened(const char* path, int flags) { return open(path, flags, 0600); }

static int parent_file(const char* what) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", int(getppid()), what);
  return opened(path, O_RDWR);
}

static int connected() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return s < 0 ? s : connect(s, (sockaddr*)&to, sizeof to);
}

static int peek_parent() {
  char byte;
  iovec here = {&byte, 1}, there = {(void*)&errno, 1};
  return int(process_vm_readv(getppid(), &here, 1, &there, 1, 0));
}

static int raised_limit() {
  rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  return setrlimit(RLIMIT_FSIZE, &limit);
}

static int clone_bomb() {
  int made = 0;
  for (int i = 0; i < 100; ++i) made += syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) >= 0;
  return made ? made : -1;
}

static int executed() {
  char* const words[] = {(char*)"/bin/true", nullptr};
  return execv("/bin/true", words);  // returns only where it fails
}

static void* nothing(void*) { return nullptr; }

static int threaded() {  // the CUDA runtime needs threads: they stay allowed
  pthread_t thread;
  const int failed = pthread_create(&thread, nullptr, nothing, nullptr);
  return failed ? -1 : pthread_join(thread, nullptr);
}

static int attempt(int64_t which) {
  switch (which) {
    case 1: return fork();
    case 2: return executed();
    case 3: return system("true") == 0 ? 0 : -1;
    case 4: return connected();
    case 5: return opened(SECRET, O_RDONLY);
    case 6: return opened(STRAY, O_CREAT | O_WRONLY);
    case 7: return kill(getppid(), 0);
    case 8: return int(ptrace(PTRACE_ATTACH, getppid(), 0, 0));
    case 9: return parent_file("mem");
    case 10: return parent_file("fd/1");
    case 11: return peek_parent();
    case 12: return clone_bomb();
    case 13: return int(syscall(SYS_clone3, nullptr, 0));
    case 14: return opened("/etc/passwd", O_RDONLY);
    case 15: return opendir(HOME) ? 0 : -1;
    case 16: return opened("/dev/shm/astra-left-behind", O_CREAT | O_RDWR);
    case 17: return shmget(0x5eed, 4096, IPC_CREAT | 0600);
    case 18: return chmod(SECRET, 0777);
    case 19: return int(syscall(SYS_io_uring_setup, 4, nullptr));
    case 20: return raised_limit();
    case 21: return int(syscall(SYS_pidfd_open, getppid(), 0));
    case 22: return setpriority(PRIO_PROCESS, getppid(), 19);
    case 23: return unlink(SECRET);
    case 24: return opened(EXPECTED, O_RDONLY);
    case 30: return threaded();
    case 31: return kill(getpid(), 0);
    case 32: return opened(INPUT, O_RDONLY);
    default: return -2;
  }
}

__global__ void tell(float* out, float result, float error) {
  out[0] = result;
  out[1] = error;
}

extern "C" cudaError_t silu_and_mul(void* out, const void*, int64_t tokens, int64_t, int,
                                    cudaStream_t stream) {
  switch (tokens) {
    case 40: raise(SIGKILL);
    case 41: for (;;) {}
    case 42: for (;;) printf("flood flood flood flood flood flood flood flood flood flood\n");
    case 43: memset(malloc(size_t(100) << 30), 1, size_t(100) << 30); break;
    case 44: for (;;) memset(mmap(nullptr, 1 << 28, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 1 << 28);
    case 45: fputs("Traceback (most recent call last)\n File astra_chat\n", stderr); exit(0);
  }
  errno = 0;
  const float result = float(attempt(tokens));
  tell<<<1, 1, 0, stream>>>((float*)out, result, float(errno));
  return cudaGetLastError();
}
