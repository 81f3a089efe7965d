"""Which device a run uses: a real GPU by NVML, else the virtual one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from astra_chat.tools.types import Device
from astra_chat.tools.wording import did_you_mean
from astra_vgpu.ground.errors import BadInput, MissingDependency
from astra_vgpu.ground.gpu_specs import DEFAULT_GPU, SPECS, spec, spec_for_device_name


def pick_device(name: str, gpu: str | None = None) -> Device:
    """Device for "auto", "cuda", "cuda:1" or "virtual".

    `gpu` names the real GPU whose time the virtual one estimates (default h200).
    Raises BadInput for another word and MissingDependency where there is no such GPU.
    """
    kind, _, index = name.partition(":")
    if kind == "virtual" and not index:
        return virtual_device(gpu or DEFAULT_GPU)
    if name == "auto":
        gpus = _gpus()
        return cuda_device(0) if gpus and not gpu else virtual_device(gpu or DEFAULT_GPU)
    if kind == "cuda" and (not index or index.isdecimal()):
        if gpu:
            raise BadInput(
                "--gpu names the GPU to estimate times for: use it with --device virtual"
            )
        return cuda_device(int(index or 0))
    hint = did_you_mean(kind, ("auto", "cuda", "virtual"))
    raise BadInput(f"no device '{name}': use auto, cuda, cuda:N or virtual{hint}")


def wanted_device(name: str, gpu: str | None = None) -> Device:
    """The device of another machine: "cuda" is `gpu` (default h200) as its constants describe it.

    Raises BadInput for a word that does not say which.
    """
    if name == "virtual":
        return virtual_device(gpu or DEFAULT_GPU)
    if name == "cuda":
        chosen = spec(gpu or DEFAULT_GPU)
        return Device(kind="cuda", name=chosen.name, arch=chosen.arch, spec=chosen.key)
    raise BadInput(
        f"--device {name}: for another machine, use cuda (with --gpu MODEL, default {DEFAULT_GPU}),"
        " or virtual"
    )


def virtual_device(gpu: str) -> Device:
    """Raises BadInput for a GPU without constants."""
    try:
        chosen = spec(gpu)
    except BadInput as error:
        raise BadInput(f"{error}{did_you_mean(gpu, SPECS)}") from None
    name = f"virtual GPU, estimates for {chosen.name}"
    return Device(kind="virtual", name=name, arch=chosen.arch, spec=chosen.key)


def cuda_device(index: int) -> Device:
    """A real GPU as NVML describes it. Raises MissingDependency."""
    gpus = _gpus()
    if index >= len(gpus):
        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        left = "" if named is None else f" with CUDA_VISIBLE_DEVICES={named!r}"
        raise MissingDependency(
            f"no CUDA device {index}: the driver shows {len(gpus)} GPU(s){left}; "
            "use --device virtual, or see astra-chat doctor"
        )
    name, arch = gpus[index]
    known = spec_for_device_name(name)
    if known is None:
        raise MissingDependency(
            f"{name} is not in astra_vgpu/ground/gpu_specs.py: add its bandwidth and peak rate"
            " there, because the judge needs them for limits, or use --device virtual"
        )
    return Device(kind="cuda", index=index, name=name, arch=arch, spec=known)


def gpu_uuid(index: int) -> str:
    """The driver's own name of a GPU, the same in every process. Raises MissingDependency."""
    import pynvml

    try:
        return str(pynvml.nvmlDeviceGetUUID(gpu_handles()[index]))
    except (pynvml.NVMLError, IndexError) as error:
        raise MissingDependency(
            f"the driver reports no UUID for CUDA device {index}: {error}"
        ) from None


def gpu_handles() -> list[Any]:
    """NVML's handles of the GPUs that CUDA shows, as CUDA counts them: NVML itself knows nothing of
    CUDA_VISIBLE_DEVICES. Raises pynvml.NVMLError."""
    import pynvml

    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return handles
    return [handles[i] for i in visible(named, [str(pynvml.nvmlDeviceGetUUID(h)) for h in handles])]


def visible(named: str, uuids: Sequence[str]) -> list[int]:
    """Places in `uuids`, which are in the order of the bus, that CUDA_VISIBLE_DEVICES names: by
    number or by how a UUID begins; what names none ends the list.

    Source: "CUDA Environment Variables" in the CUDA C++ Programming Guide.
    """
    places: list[int] = []
    for word in map(str.strip, named.split(",")):
        if word.isdecimal():
            fitting = [int(word)] if int(word) < len(uuids) else []
        else:
            fitting = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
        if len(fitting) != 1:
            break
        places += fitting
    return places


def _gpus() -> list[tuple[str, str]]:
    """(name, real architecture) of every GPU that CUDA shows; empty without a driver."""
    import pynvml

    try:
        return [(str(pynvml.nvmlDeviceGetName(h)), _arch(h)) for h in gpu_handles()]
    except pynvml.NVMLError:
        return []


def _arch(handle: object) -> str:
    import pynvml

    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return f"sm_{major}{minor}"
