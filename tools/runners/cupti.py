"""CUPTI's range profiler, by ctypes: hardware counters of the launches of this process, in passes.

No kept binding has it: cupti-python (13.4) wraps the host's half and PM sampling only. What is
called here is the same from CUPTI 12.6 on. torch for CUDA brings the library, as nvidia-cuda-cupti.
Source: cupti_profiler_host.h and cupti_range_profiler.h; "CUPTI", NVIDIA, on range profiling.
"""

from __future__ import annotations

import ctypes as c
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

P, SIZE = c.c_void_p, c.c_size_t
_IMAGE = (("size", SIZE), ("image", P))
_NAMES = (("names", P), ("count", SIZE))
_HOST, _PROFILER = ("host", P), ("profiler", P)
_PARAMETERS: dict[str, tuple[tuple[str, Any], ...]] = {
    "ProfilerInitialize": (),
    "DeviceGetChipName": (("index", SIZE), ("name", c.c_char_p)),
    "ProfilerHostInitialize": (("kind", c.c_int), ("chip", c.c_char_p), ("available", P), _HOST),
    "ProfilerHostGetMetricProperties": (
        _HOST, ("name", c.c_char_p), ("description", c.c_char_p), ("unit", c.c_char_p),
        ("dimension", c.c_char_p), ("kind", c.c_int),
    ),
    "ProfilerHostConfigAddMetrics": (_HOST, *_NAMES),
    "ProfilerHostGetConfigImageSize": (_HOST, ("size", SIZE)),
    "ProfilerHostGetConfigImage": (_HOST, *_IMAGE),
    "ProfilerHostGetNumOfPasses": (*_IMAGE, ("passes", SIZE)),
    "ProfilerHostEvaluateToGpuValues": (
        _HOST, ("image", P), ("size", SIZE), ("range", SIZE), *_NAMES, ("values", P),
    ),
    "RangeProfilerEnable": (("context", P), _PROFILER),
    "RangeProfilerDisable": (_PROFILER,),
    "RangeProfilerGetCounterDataSize": (
        _PROFILER, *_NAMES, ("ranges", SIZE), ("nodes", c.c_uint32), ("size", SIZE),
    ),
    "RangeProfilerCounterDataImageInitialize": (_PROFILER, *_IMAGE),
    "RangeProfilerSetConfig": (
        _PROFILER, ("config_size", SIZE), ("config", P), *_IMAGE, ("range", c.c_int),
        ("replay", c.c_int), ("ranges", SIZE), ("levels", c.c_uint16), ("first_level", c.c_uint16),
        ("turn", SIZE), ("level", c.c_uint16),
    ),
    "RangeProfilerStart": (_PROFILER,),
    "RangeProfilerStop": (_PROFILER, ("turn", SIZE), ("level", SIZE), ("done", c.c_uint8)),
    "RangeProfilerDecodeData": (_PROFILER, ("dropped", SIZE)),
    "RangeProfilerGetCounterDataInfo": (("image", P), ("size", SIZE), ("ranges", SIZE)),
}  # fmt: skip
"""Members of the parameters of each function, after the size of the structure and a reserved one.
"""
RANGE_PROFILER = 0
"""CUPTI_PROFILER_TYPE_RANGE_PROFILER."""
EACH_LAUNCH, REPLAYED_BY_US = 1, 3
"""CUPTI_AutoRange and CUPTI_UserReplay: a range is a launch, and we launch again for each pass."""
NO_PRIVILEGES, NO_SUCH_METRIC = (35, 40), 17
"""CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, also of a virtualized device;
CUPTI_ERROR_INVALID_METRIC_NAME."""
HOW_TO_INSTALL = "pip install 'astra-chat[counters]'"


class CuptiError(Exception):
    """A call of CUPTI failed. `code` is its CUptiResult; 0 where there is no CUPTI."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class HostMetrics:
    """The metrics of a list that this kind of GPU has, and how they are counted in passes. It needs
    no GPU."""

    def __init__(self, chip: str, asked: Sequence[str]) -> None:
        """`chip`: CUPTI's name of it, such as GH100. Raises CuptiError for one that CUPTI does not
        know."""
        self._host = _cupti("ProfilerHostInitialize", kind=RANGE_PROFILER, chip=chip.encode()).host
        self.units = {name: unit for name in asked if (unit := self._unit(name)) is not None}
        """Unit of each metric that there is."""
        self.names = MetricNames(list(self.units))
        _cupti("ProfilerHostConfigAddMetrics", host=self._host, **self.names.passed)
        size = _cupti("ProfilerHostGetConfigImageSize", host=self._host).size
        self.config = Image(size)
        _cupti("ProfilerHostGetConfigImage", host=self._host, **self.config.passed)
        self.passes = int(_cupti("ProfilerHostGetNumOfPasses", **self.config.passed).passes)

    def _unit(self, name: str) -> str | None:
        try:
            properties = _cupti(
                "ProfilerHostGetMetricProperties", host=self._host, name=name.encode()
            )
        except CuptiError as error:
            if error.code == NO_SUCH_METRIC:
                return None
            raise
        return str(properties.dimension.decode())

    def values(self, image: Image, number: int) -> dict[str, float]:
        """Values of one range; what is no number, as a share of nothing is, is left out."""
        values = (c.c_double * len(self.units))()
        _cupti(
            "ProfilerHostEvaluateToGpuValues",
            host=self._host,
            range=number,
            values=c.addressof(values),
            **image.passed,
            **self.names.passed,
        )
        pairs = zip(self.units, values, strict=True)
        return {name: value for name, value in pairs if math.isfinite(value)}


class RangeProfiler:
    """Counts what launches on the current context do."""

    def __init__(self, index: int, asked: Sequence[str]) -> None:
        """`index` of the context's GPU, as CUDA counts. Raises CuptiError."""
        from cuda.bindings import driver

        _cupti("ProfilerInitialize")
        chip = _cupti("DeviceGetChipName", index=index).name.decode()
        self.metrics = HostMetrics(chip, asked)
        _, context = driver.cuCtxGetCurrent()
        self._profiler = _cupti("RangeProfilerEnable", context=int(context)).profiler

    def counted(
        self, launches: int, ready: Callable[[], None], launch: Callable[[], None]
    ) -> list[dict[str, float]]:
        """Values of each of so many launches, which `launch` makes and waits for, once a pass.
        `ready` is called before each. Raises CuptiError."""
        image = self._image(launches)
        config = self.metrics.config
        self._call(
            "SetConfig",
            config_size=config.size,
            config=config.address,
            **image.passed,
            range=EACH_LAUNCH,
            replay=REPLAYED_BY_US,
            ranges=launches,
            levels=1,
            first_level=1,
            level=1,
        )
        for _ in range(self.metrics.passes):
            ready()
            self._call("Start")
            launch()
            done = self._call("Stop").done
        if not done:
            raise CuptiError(f"CUPTI needs more than {self.metrics.passes} passes")
        self._call("DecodeData")
        found = _cupti("RangeProfilerGetCounterDataInfo", **image.passed).ranges
        if found != launches:
            raise CuptiError(f"CUPTI counted {found} launches, not {launches}")
        return [self.metrics.values(image, number) for number in range(launches)]

    def close(self) -> None:
        """Count no more on this context."""
        self._call("Disable")

    def _image(self, launches: int) -> Image:
        names = self.metrics.names.passed
        wanted = {"ranges": launches, "nodes": launches, **names}
        image = Image(self._call("GetCounterDataSize", **wanted).size)
        self._call("CounterDataImageInitialize", **image.passed)
        return image

    def _call(self, name: str, /, **members: Any) -> Any:
        return _cupti(f"RangeProfiler{name}", profiler=self._profiler, **members)


class Image:
    """Bytes that CUPTI writes to."""

    def __init__(self, size: int) -> None:
        self.size, self._bytes = size, (c.c_uint8 * size)()
        self.address = c.addressof(self._bytes)
        self.passed = {"size": size, "image": self.address}


class MetricNames:
    """Names of metrics, as C strings."""

    def __init__(self, names: Sequence[str]) -> None:
        self._array = (c.c_char_p * len(names))(*(name.encode() for name in names))
        self.passed = {"names": c.addressof(self._array), "count": len(names)}


def _cupti(name: str, /, **members: Any) -> Any:
    """Call a function; its parameters, with what it wrote to them. Raises CuptiError."""
    parameters = _structure(name)(**members)
    parameters.size_of_this = _size(name)
    if result := getattr(library(), f"cupti{name}")(c.byref(parameters)):
        text = c.c_char_p()
        library().cuptiGetResultString(result, c.byref(text))
        raise CuptiError(f"cupti{name}: {(text.value or b'').decode() or result}", result)
    return parameters


@cache
def _structure(name: str) -> Any:
    fields = [("size_of_this", SIZE), ("reserved", P), *_PARAMETERS[name]]
    return type(name, (c.Structure,), {"_fields_": fields})


def _size(name: str) -> int:
    """Bytes up to the end of the last member: without the padding after it."""
    member, kind = _structure(name)._fields_[-1]
    return int(getattr(_structure(name), member).offset + c.sizeof(kind))


@cache
def library() -> c.CDLL:
    """Raises CuptiError where there is none with a range profiler."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        found = c.CDLL(load_nvidia_dynamic_lib("cupti").abs_path)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0].partition(":")[0][:120]
        raise CuptiError(f"no libcupti ({reason}): {HOW_TO_INSTALL}") from error
    if not hasattr(found, "cuptiRangeProfilerEnable"):
        raise CuptiError(f"libcupti has no range profiler: {HOW_TO_INSTALL}")
    return found
