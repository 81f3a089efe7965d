"""The host compiler's flag by which variables that a function leaves unset are zeros.

Host functions fill a struct of parameters in part and pass all of it to a kernel: what was on the
stack before would be in the launch, which then differs from call to call.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

FLAG = "-ftrivial-auto-var-init=zero"


@cache
def zeroed_variables(cxx: Path) -> tuple[str, ...]:
    """For nvcc; nothing where the compiler does not know it: g++ does since 12, clang since 16."""
    command = [str(cxx), FLAG, "-E", "-x", "c++", "/dev/null"]
    known = subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    return (f"-Xcompiler={FLAG}",) if known else ()
