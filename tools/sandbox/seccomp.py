"""seccomp by system call: which calls a process may make. x86-64 Linux; needs no privileges.

The filters are deny-lists, not allow-lists: the CUDA driver makes calls that no allow-list of ours
would foresee. Source: Documentation/userspace-api/seccomp_filter.rst of Linux; numbers of
arch/x86/entry/syscalls/syscall_64.tbl.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable

SECCOMP, SET_MODE_FILTER, GET_ACTION_AVAIL = 317, 1, 2
ALL_THREADS = 1
PR_SET_NO_NEW_PRIVS = 38

LOAD, IF_EQUAL, IF_AT_LEAST, IF_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Classic BPF: load a word of seccomp_data, three jumps, return."""
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
NUMBER, ARCH, ARGUMENT = 0, 4, 16
"""Offsets in struct seccomp_data; the low half of argument i lies at ARGUMENT + 8 i."""
X86_64, X32_BIT = 0xC000003E, 0x40000000
CLONE_THREAD = 0x00010000
AF_UNIX = 1

OTHERS = {
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "pidfd_send_signal": 424,
    "process_madvise": 440,
    "process_mrelease": 448,
    "tkill": 200,
    "perf_event_open": 298,
}
"""Calls that reach into other processes."""
MACHINE = {
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "mount_setattr": 442, "keyctl": 250, "add_key": 248, "request_key": 249,
    "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
    "kexec_file_load": 320, "reboot": 169, "swapon": 167, "swapoff": 168, "settimeofday": 164,
    "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "sethostname": 170,
    "setdomainname": 171, "acct": 163, "quotactl": 179, "iopl": 172, "ioperm": 173,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "syslog": 103, "bpf": 321,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
}  # fmt: skip
"""Calls about the machine, and those that would go round this filter."""
NETWORK = {
    "socket": 41,
    "socketpair": 53,
    "connect": 42,
    "bind": 49,
    "listen": 50,
    "accept": 43,
    "accept4": 288,
}
PROGRAMS = {"fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "setsid": 112, "setpgid": 109}
LASTING = {
    "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "mq_open": 240,
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452,
    "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260,
    "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280,
    "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "removexattrat": 466,
}  # fmt: skip
"""What would outlive the process, or change files in ways that Landlock does not see."""
PRIORITY = {
    "setpriority": 141,
    "sched_setscheduler": 144,
    "sched_setparam": 142,
    "sched_setattr": 314,
    "ioprio_set": 251,
}
ON_ITSELF = {"kill": 62, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297}
"""First argument a process: allowed on the calling process only."""
ON_ITSELF_OR_0 = {"prlimit64": 302, "sched_setaffinity": 203}
CLONE, CLONE3 = 56, 435
ON_A_FILE = {
    "write": 1,
    "pwrite64": 18,
    "pwritev": 296,
    "pwritev2": 328,
    "vmsplice": 278,
    "sendfile": 40,
    "dup": 32,
    "dup2": 33,
    "dup3": 292,
    "fcntl": 72,
}
"""Calls on an open file that write to it or give it another number; writev is not among them."""


class SeccompError(OSError):
    """A filter was not taken."""


def available() -> bool:
    """Whether this kernel takes filters that answer a call with an error."""
    if platform.machine() != "x86_64" or os.name != "posix":
        return False
    action = ctypes.c_uint32(ERRNO)
    return bool(_libc().syscall(SECCOMP, GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0)


def wall(*, network: bool, local_sockets: bool = False) -> None:
    """For whole process trees that must fork: no other processes, no machine, no network.

    `local_sockets` leaves Unix sockets: the CUDA driver makes one at its start, before `lock` takes
    them away too. Raises SeccompError.
    """
    local = local_sockets and not network
    refused = OTHERS | MACHINE | ({} if network or local else NETWORK)
    sockets = _block(NETWORK["socket"], _unless([(IF_EQUAL, AF_UNIX)])) if local else []
    _install([*_head(), *_refusals(refused.values()), *sockets, (RETURN, 0, 0, ALLOW)])


def lock(pipe: int = -1) -> bool:
    """For a runner, before a candidate's code is loaded: nothing but threads, files and devices.

    To the file `pipe`, the judge's, only writev may write: the C library's streams, which a kernel
    file can turn to any number, use write. Holds for all threads there are. False where the kernel
    has no seccomp. Raises SeccompError.
    """
    if not available():
        return False
    own = os.getpid()
    refused = OTHERS | MACHINE | NETWORK | PROGRAMS | LASTING | PRIORITY
    _install(
        [
            *_head(),
            *_refusals(refused.values()),
            *_block(CLONE3, [(RETURN, 0, 0, ERRNO | errno.ENOSYS)]),  # glibc then uses clone
            *_block(CLONE, _unless([(IF_SET, CLONE_THREAD)])),
            *(i for n in ON_ITSELF.values() for i in _block(n, _unless([(IF_EQUAL, own)]))),
            *(
                instruction
                for number in ON_ITSELF_OR_0.values()
                for instruction in _block(number, _unless([(IF_EQUAL, own), (IF_EQUAL, 0)]))
            ),
            *(
                instruction
                for number in ON_A_FILE.values()
                for instruction in (_block(number, _unless_on(pipe)) if pipe >= 0 else ())
            ),
            (RETURN, 0, 0, ALLOW),
        ]
    )
    return True


Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""


def _head() -> list[Instruction]:
    """Another architecture's calls have other numbers: a process that makes one dies."""
    return [
        (LOAD, 0, 0, ARCH),
        (IF_EQUAL, 1, 0, X86_64),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (IF_AT_LEAST, 0, 1, X32_BIT),
        (RETURN, 0, 0, KILL),
    ]


def _refusals(numbers: Iterable[int]) -> list[Instruction]:
    refuse: Instruction = (RETURN, 0, 0, ERRNO | errno.EPERM)
    return [i for number in numbers for i in ((IF_EQUAL, 0, 1, number), refuse)]


def _block(number: int, body: list[Instruction]) -> list[Instruction]:
    """`body`, which returns, for one call; the next block finds the number loaded again."""
    return [(LOAD, 0, 0, NUMBER), (IF_EQUAL, 0, len(body), number), *body]


def _unless(tests: list[tuple[int, int]]) -> list[Instruction]:
    """Refused unless one of the tests on the first argument holds."""
    checks = [(code, len(tests) - i, 0, value) for i, (code, value) in enumerate(tests)]
    return [
        (LOAD, 0, 0, ARGUMENT),
        *checks,
        (RETURN, 0, 0, ERRNO | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]


def _unless_on(file: int) -> list[Instruction]:
    """Refused where the first argument is this file."""
    return [
        (LOAD, 0, 0, ARGUMENT),
        (IF_EQUAL, 0, 1, file),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]


def _install(program: list[Instruction]) -> None:
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
    held = ctypes.create_string_buffer(code, len(code))
    head = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(held))
    libc = _libc()
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise SeccompError(ctypes.get_errno(), "no_new_privs was refused")
    if result := libc.syscall(SECCOMP, SET_MODE_FILTER, ALL_THREADS, head):
        number = ctypes.get_errno()
        raise SeccompError(number, f"seccomp filter: {result}, {os.strerror(number)}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
