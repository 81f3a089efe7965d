"""Landlock by system call: which files a process may reach. Linux only; needs no privileges.

Source: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of Linux.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls; the numbers are the same on every architecture."""
VERSION_FLAG, PATH_BENEATH = 1, 1
PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights, counted from bit 0, an ABI knows; later ones add none for files."""
NETWORK_ABI, SCOPE_ABI = 4, 6
TCP = 0b11
SCOPES = 0b11
"""Abstract Unix sockets and signals stay inside."""

READ = READ_FILE | READ_DIR | EXECUTE
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The only rights that a rule about a single file may name."""


class LandlockError(OSError):
    """A call failed that a kernel with Landlock grants."""


def abi() -> int:
    """Version of Landlock in this kernel; 0 where there is none."""
    return max(0, int(_libc().syscall(CREATE_RULESET, None, 0, VERSION_FLAG)))


def all_rights(version: int) -> int:
    return int((1 << RIGHTS_BY_ABI[min(version, max(RIGHTS_BY_ABI))]) - 1)


def restrict(
    read: Iterable[str], write: Iterable[str], listed: Iterable[str], *, network: bool
) -> None:
    """Leave this thread, and what it starts, reading `read` and doing anything under `write`.

    Of `listed` and below it sees the names only: Python looks for packages by listing. Paths that
    are not there are passed over. Raises LandlockError.
    """
    version, libc = abi(), _libc()
    rights = all_rights(version)
    attributes = (ctypes.c_uint64 * 3)(
        rights,
        0 if network or version < NETWORK_ABI else TCP,
        SCOPES if version >= SCOPE_ABI else 0,
    )
    size = 8 if version < NETWORK_ABI else 16 if version < SCOPE_ABI else 24
    ruleset = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for paths, allowed in ((read, READ), (write, rights), (listed, READ_DIR)):
            for path in paths:
                _allow(libc, ruleset, path, allowed & rights)
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= FILE_RIGHTS
        rule = rights.to_bytes(8, "little") + place.to_bytes(4, "little")
        _checked(libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise LandlockError(number, os.strerror(number))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
