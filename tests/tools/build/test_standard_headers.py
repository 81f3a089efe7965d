"""nvcc.py: the compiler's headers run nothing when a library is loaded."""

from __future__ import annotations

from astra_chat.tools.build.nvcc import STANDARD_HEADERS, Build, build
from astra_chat.tools.policy.binary_audit import audit
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task


def test_a_header_that_includes_iostream_brings_no_host_code() -> None:
    task = find_task("silu_and_mul")
    source = "#include <cub/block/block_load.cuh>\n" + task.baseline
    built = build(task, source, virtual_device("h200"))
    assert isinstance(built, Build), built
    assert audit(built, task, source) == ()


def test_it_declares_what_the_standard_says() -> None:
    task = find_task("silu_and_mul")
    source = "#include <iostream>\nauto* end = std::endl<char, std::char_traits<char>>;\n"
    for name in ("cin", "cout", "cerr", "clog", "wcin", "wcout", "wcerr", "wclog"):
        source += f"auto* address_of_{name} = &std::{name};\n"
    built = build(task, source + task.baseline, virtual_device("h200"))
    assert isinstance(built, Build), built
    assert list(STANDARD_HEADERS) == ["standard/iostream"]
