"""A failed launch as text: which kernel, with which grid, block and shared memory, and the limit
that it exceeds."""

from __future__ import annotations

from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.plan.report import Called, FailedLaunch
from astra_chat.tools.template_arguments import template_arguments

ATTRIBUTE = "cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)"

ERROR = "error: "
"""Begins what a function threw, in what its launcher says."""


def failure_text(called: Called) -> str:
    """What a launcher's call failed with: its failed launch, else the error that it returned."""
    failed, status = called.failed, called.status or called.left
    if failed is None:
        said = [line for line in called.said.splitlines() if line.startswith(ERROR)]
        if said:
            return said[-1].removeprefix(ERROR)
        return f"the launcher returned CUDA error {status} ({called.error})"
    text = _launch(failed)
    if failed.code != status:
        text += f"; the launcher returned CUDA error {status} ({called.error})"
    return text


def _launch(failed: FailedLaunch) -> str:
    name = kernel_name(failed.kernel) + template_arguments(failed.kernel)
    grid, block = (", ".join(map(str, extent)) for extent in (failed.grid, failed.block))
    return (
        f"launch {failed.number} of the launcher fails with CUDA error {failed.code}"
        f" ({failed.text}): kernel {name}, grid ({grid}), block ({block}),"
        f" {failed.dynamic_shared_bytes:,} bytes of dynamic shared memory: {limit_text(failed)}"
    )


def limit_text(failed: FailedLaunch) -> str:
    """The limit, "grid.y is 70,000, but at most 65,535 is allowed"."""
    value, most = f"{failed.value:,}", f"at most {failed.most:,}"
    match failed.limit:
        case "clusters":
            return "this GPU does not support clusters"
        case "cluster extents":
            return (
                "the cluster's extents do not divide the grid's, or differ from the compiled ones"
            )
        case "dynamic shared memory":
            return f"{most} bytes{_raised(failed)}"
        case "shared memory":
            return f"{value} bytes with the static shared memory, but {most} is allowed"
        case "threads by launch bounds":
            return f"{value} threads in a block, but __launch_bounds__ allows {most}"
        case "threads by registers":
            return f"{value} threads in a block, but the kernel's registers allow {most}"
        case "threads of a block" if failed.value:
            return f"{value} threads in a block, but {most} are allowed"
        case "blocks of a cooperative launch":
            return f"{value} blocks in a cooperative launch, but {most} can run at once"
        case name if failed.value < failed.least:
            return f"{name} is {value}, but must be at least {failed.least:,}"
        case name:
            return f"{name} is {value}, but {most} is allowed"


def _raised(failed: FailedLaunch) -> str:
    """What has to be done to get more of it."""
    if failed.raised:
        return f", the size last passed to {ATTRIBUTE} for this kernel"
    return f" without {ATTRIBUTE}"
