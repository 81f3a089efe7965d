"""Which device a run uses: a real GPU by NVML, else the virtual one."""

from __future__ import annotations

from astra_chat.tools.errors import BadInput, EnvironmentLack
from astra_chat.tools.types import Device
from astra_chat.tools.virtual_gpu.specs import spec, spec_for_device_name


def pick_device(name: str, gpu: str | None = None) -> Device:
    """Device for "auto", "cuda", "cuda:1" or "virtual".

    `gpu` names the real GPU whose time the virtual one estimates (default h200).
    Raises BadInput for another word and EnvironmentLack where there is no such GPU.
    """
    kind, _, index = name.partition(":")
    if kind == "virtual" and not index:
        return virtual_device(gpu or "h200")
    if name == "auto":
        found = _gpus()
        return cuda_device(0) if found and not gpu else virtual_device(gpu or "h200")
    if kind == "cuda" and (not index or index.isdecimal()):
        if gpu:
            raise BadInput("--gpu names whose time is estimated: it goes with --device virtual")
        return cuda_device(int(index or 0))
    raise BadInput(f"no device '{name}': use auto, cuda, cuda:N or virtual")


def virtual_device(gpu: str) -> Device:
    chosen = spec(gpu)
    return Device(
        kind="virtual", name=f"virtual GPU, estimates for {chosen.name}", arch="sm_90", spec=gpu
    )


def cuda_device(index: int) -> Device:
    """A real GPU as NVML describes it. Raises EnvironmentLack."""
    found = _gpus()
    if index >= len(found):
        raise EnvironmentLack(
            f"no CUDA device {index}: the driver shows {len(found)} GPU(s); "
            "use --device virtual, or see astra-chat doctor"
        )
    name, arch = found[index]
    known = spec_for_device_name(name)
    if known is None:
        raise EnvironmentLack(
            f"{name} is not in tools/virtual_gpu/specs.py: add its bandwidth and peak there, "
            "so that limits can be judged, or use --device virtual"
        )
    return Device(kind="cuda", index=index, name=name, arch=arch, spec=known)


def gpu_uuid(index: int) -> str:
    """The driver's own name of a GPU, the same in every process. Raises EnvironmentLack."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        return str(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError as error:
        raise EnvironmentLack(f"the driver does not name CUDA device {index}: {error}") from None


def _gpus() -> list[tuple[str, str]]:
    """(name, real architecture) of every GPU that the driver shows; empty without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [(str(pynvml.nvmlDeviceGetName(h)), _arch(h)) for h in handles]
    finally:
        pynvml.nvmlShutdown()


def _arch(handle: object) -> str:
    import pynvml

    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return f"sm_{major}{minor}"
