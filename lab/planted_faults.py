"""Kernels that are wrong in one region of the legal domain: a task's baseline with a planted fault.

After the baseline's own launch a second kernel spoils results, and does so only where a condition
over the launcher's parameters holds, or only results beside inputs of certain values. Each fault
comes with a legal case inside its region.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from astra_chat.tools.check.drawn_dims import Dims, least
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.domain import MAX_BYTES, Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters, prototype
from astra_chat.tools.task.relations import settled
from astra_chat.tools.types import DTYPE_CODES, AnyFamily, Case, DTypeName

MANY = 2**17
"""Dims that may be larger count rows."""
MOST_LOW_BYTES = 2**23
"""Least bytes of a call at a window's lower end: the case inside has to run."""
SPOIL = r"""
// What is below was planted.
#include <cstdint>
#include <cuda_fp8.h>

namespace planted {

__device__ float load(const void* data, int64_t i, int dtype) {
  if (dtype == 0) return static_cast<const float*>(data)[i];
  if (dtype == 1) return __half2float(static_cast<const __half*>(data)[i]);
  if (dtype == 3) return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

__device__ void store(void* data, int64_t i, int dtype, float v) {
  if (dtype == 0) static_cast<float*>(data)[i] = v;
  else if (dtype == 1) static_cast<__half*>(data)[i] = __float2half_rn(v);
  else if (dtype == 3) static_cast<__nv_fp8_e4m3*>(data)[i] = __nv_fp8_e4m3(v);
  else static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(v);
}

__device__ bool meant(float v) { return VALUE; }

// Row by row; a watched row that is longer than the result's meets it again and again.
__global__ void spoil(void* out, int64_t out_stride, int64_t out_row, int out_dtype,
                      const void* seen, int64_t seen_stride, int64_t seen_row, int seen_dtype,
                      int64_t first) {
  const int64_t row = first + blockIdx.x;
  for (int64_t c = threadIdx.x; c < out_row; c += blockDim.x) {
    bool bad = false;
    for (int64_t s = c; s < seen_row; s += out_row) {
      bad = bad || meant(load(seen, row * seen_stride + s, seen_dtype));
    }
    const int64_t at = row * out_stride + c;
    if (bad) store(out, at, out_dtype, load(out, at, out_dtype) * 1.5f + 0.25f);
  }
}

}  // namespace planted
"""


@dataclass(frozen=True)
class Fault:
    """A fault in one region."""

    kind: str
    """Kind of the region: "size window", "alignment", ..."""
    words: str
    condition: str
    """Where results are spoiled: a condition in C over the launcher's parameters."""
    case: Case
    """A legal case inside the region."""
    watched: str = ""
    """The argument whose values decide, by its name; "" where the condition alone does."""
    value: str = "true"
    """Which values of the watched argument decide: a condition in C over one of them, `v`."""


@dataclass(frozen=True)
class Planter:
    """Draws faults of one task."""

    task: Task
    rng: random.Random

    def draw(self, count: int) -> list[Fault]:
        """So many faults, of all kinds that the task has, in turn."""
        kinds: list[Callable[[], Fault]] = [
            self.size_window,
            self.value_window,
            self.alignment,
            self.size_and_dtype,
            self.special_value,
            self.many_rows,
            self.value_window,
            self.size_window,
            self.residues,
        ]
        if not self._watchable:
            kinds = [k for k in kinds if k not in (self.value_window, self.special_value)]
        if not any(dim.max > MANY for dim in self.task.dims.values()):
            kinds.remove(self.many_rows)
        if any(arg.strided for arg in self.task.args):
            kinds.insert(2, self.stride)
        if any(scalar.range for scalar in self.task.scalars):
            kinds.insert(4, self.scalar)
        return [kinds[number % len(kinds)]() for number in range(count)]

    def size_window(self) -> Fault:
        """Sizes of one dim in a window of a factor of 2 to 4."""
        dtype = self.rng.choice(self.task.dtypes)
        name, low, high, case = self._window(dtype)
        return Fault(
            "size window",
            f"{name} from {low} to {high}",
            f"{name} >= {low} && {name} <= {high}",
            case,
        )

    def size_and_dtype(self) -> Fault:
        """Sizes of one dim in a window of a factor of 2 to 4, in one dtype only."""
        dtype = self.rng.choice(self.task.dtypes)
        name, low, high, case = self._window(dtype)
        condition = f"{name} >= {low} && {name} <= {high} && dtype == {DTYPE_CODES[dtype]}"
        return Fault("size and dtype", f"{dtype}, {name} from {low} to {high}", condition, case)

    def many_rows(self) -> Fault:
        """More rows than some number from 65,536 to 100,000, or to what a check can hold."""
        name = next(n for n, dim in self.task.dims.items() if dim.max > MANY)
        dtype = self.rng.choice(self.task.dtypes)
        most = MAX_BYTES // self.task.buffer_bytes(self._case(dtype)) - 1
        rows = self.rng.randint(65_536, min(100_000, max(65_536, most)))
        case = self._case(dtype, {name: rows + 1})
        return Fault("many rows", f"{name} > {rows}", f"{name} > {rows}", case)

    def residues(self) -> Fault:
        """Extents that leave drawn remainders."""
        dtype = self.rng.choice(self.task.dtypes)
        name = self.rng.choice(list(self.task.dims))
        step, divisor = self.task.dims[name].step(dtype), self.rng.choice((3, 4, 5, 8, 16))
        rest = self.rng.randrange(divisor)
        extent = least(self.task, self._kind(dtype))[name] // step
        extent += (rest - extent) % divisor
        units = f"({name} / {step})" if step > 1 else name
        return Fault(
            "residue",
            f"{dtype}, {units} % {divisor} == {rest}",
            f"{units} % {divisor} == {rest} && dtype == {DTYPE_CODES[dtype]}",
            self._case(dtype, {name: extent * step}),
        )

    def alignment(self) -> Fault:
        """One argument off a multiple of 32 to 256 bytes, or two that differ there."""
        dtype, bytes_ = self.rng.choice(self.task.dtypes), self.rng.choice((32, 64, 128, 256))
        first, *others = self.rng.sample([arg.name for arg in self.task.args], 2)
        one = f"reinterpret_cast<uintptr_t>({first}) % {bytes_}"
        case = self._case(dtype).model_copy(update={"offsets": {first: 1}})
        if self.rng.random() < 0.5:
            return Fault("alignment", f"{first} % {bytes_}", f"{one} != 0", case)
        other = f"reinterpret_cast<uintptr_t>({others[0]}) % {bytes_}"
        words = f"{first} and {others[0]} differ modulo {bytes_}"
        return Fault("alignment", words, f"{one} != {other}", case)

    def stride(self) -> Fault:
        """Rows that lie apart in a drawn way."""
        dtype = self.rng.choice(self.task.dtypes)
        arg = self.rng.choice([arg for arg in self.task.args if arg.strided])
        row, stride = arg.shape[-1], arg.stride_names[0]
        far = self.rng.randint(64, 512)
        condition, pad, extent = self.rng.choice(
            [
                (f"{stride} > {row} + {far}", far + 1, 1000),
                (f"{stride} >= 2 * {row}", 1000, 1000),
                (f"{stride} > {row} && {row} > 8192", 8, 9000),
                (f"{stride} > {row} && {stride} % 2 == 1", 1, 64),
                (f"{stride} > {row} && {stride} % 8 == 0", 8, 64),
            ]
        )
        case = self._case(dtype, {row: extent} if row in self.task.dims else {}, rows=3)
        return Fault(
            "stride", condition, condition, case.model_copy(update={"pads": {arg.name: pad}})
        )

    def scalar(self) -> Fault:
        """A decade or two of a scalar's range."""
        scalar = self.rng.choice([s for s in self.task.scalars if s.range])
        assert scalar.range is not None
        low, high = map(math.log10, scalar.range)
        width = self.rng.uniform(1.0, 2.0)
        start = self.rng.uniform(low, high - width)
        middle = 10.0 ** (start + width / 2)
        name = scalar.name
        condition = f"{name} >= {10.0**start:.6e}f && {name} <= {10.0 ** (start + width):.6e}f"
        case = self._case(self.rng.choice(self.task.dtypes), rows=4)
        return Fault(
            "scalar", condition, condition, case.model_copy(update={"scalars": {name: middle}})
        )

    def value_window(self) -> Fault:
        """Magnitudes of one argument in a window of two to four decades of its range."""
        arg, dtype = self._watched(), self.rng.choice(self.task.dtypes)
        width = self.rng.uniform(2.0, 4.0)
        of_dtype = {"float16": 65504.0}.get(arg.dtype_of(Case(dims={}, dtype=dtype)), 3e38)
        top = math.log10(min(_largest(arg), of_dtype))
        start = self.rng.uniform(-3.0, top - width)
        low, high = 10.0**start, 10.0 ** (start + width)
        value = f"fabsf(v) >= {low:.6e}f && fabsf(v) <= {high:.6e}f"
        words = f"{low:.1e} to {high:.1e}"
        return self._of_values("value window", arg, dtype, words, value, "magnitudes")

    def special_value(self) -> Fault:
        """Zeros of one sign, NaN, infinities, or rows of zeros."""
        arg = self._watched()
        kinds: list[tuple[str, str, AnyFamily]] = [
            ("-0", "v == 0.0f && signbit(v)", "zeros"),
            ("+0", "v == 0.0f && !signbit(v)", "zeros"),
            ("exactly 1", "v == 1.0f", "binary"),
            ("negative", "v < -4.0f", "large"),
            ("above 100", "fabsf(v) > 100.0f", "shifted"),
        ]
        words, value, family = self.rng.choice(kinds)
        dtype = self.rng.choice(self.task.dtypes)
        return self._of_values("special value", arg, dtype, words, value, family)

    def _watched(self) -> Arg:
        return self.rng.choice(self._watchable)

    @property
    def _watchable(self) -> list[Arg]:
        """Inputs that may hold any numbers, and that a kernel does not change."""
        return [a for a in self.task.args if a.has_families and not a.written]

    def _of_values(
        self, kind: str, arg: Arg, dtype: DTypeName, words: str, value: str, family: AnyFamily
    ) -> Fault:
        rows = {name: 200 for name in arg.shape[-1:] if name in self.task.dims}
        case = self._case(dtype, rows, 64)
        names = [a.name for a in self.task.args if a.has_families]
        families: dict[str, AnyFamily] = {n: family if n == arg.name else "normal" for n in names}
        return Fault(
            kind,
            f"{arg.name}: {words}",
            "true",
            case.model_copy(update={"families": families}),
            arg.name,
            value,
        )

    def _window(self, dtype: DTypeName) -> tuple[str, int, int, Case]:
        """A dim, the ends of its window, and a case inside."""
        name = self.rng.choice(list(self.task.dims))
        dim, step = self.task.dims[name], self.task.dims[name].step(dtype)
        width = self.rng.uniform(1.0, 2.0)
        top = math.log2(dim.max)
        while self.task.least_bytes(self._case(dtype, {name: round(2.0**top)})) > MOST_LOW_BYTES:
            top -= 0.5
        bottom = math.log2(max(dim.min, step, 2))
        start = self.rng.uniform(bottom, max(bottom, top - width))
        low, high = round(2.0**start), round(2.0 ** (start + width))
        return name, low, high, self._case(dtype, {name: -(-low // step) * step})

    def _case(self, dtype: DTypeName, dims: dict[str, int] | None = None, rows: int = 1) -> Case:
        """Least dims beside the given ones, as far as the relations allow; the first dim at least
        `rows`."""
        kind = self._kind(dtype)
        extents = least(self.task, kind)
        first = next(iter(extents))
        extents[first] = max(extents[first], rows)
        for name, extent in (dims or {}).items():
            extents[name] = self.task.dims[name].above(extent, dtype)
        if self.task.require:
            extents = self._settled(extents, dtype, dims or {}) or least(self.task, kind)
        return kind.case(extents).model_copy(update={"seed": 1 + self.rng.getrandbits(32)})

    def _settled(self, dims: Dims, dtype: DTypeName, keep: Collection[str]) -> Dims | None:
        """These extents, or near ones for which the relations hold."""
        task = self.task
        scalars = task.usual_scalars
        return settled(task.require, task.dims, dims, dtype, keep, scalars) or settled(
            task.require, task.dims, dims, dtype, scalars=scalars
        )

    def _kind(self, dtype: DTypeName) -> Combination:
        return next(kind for kind in self.task.combinations if kind.dtype == dtype)


def source(task: Task, fault: Fault) -> str:
    """The baseline with this fault planted: a candidate's source."""
    honest = f"honest_{task.entry}"
    head = task.baseline.replace(
        f'extern "C" cudaError_t {task.entry}(', f"static cudaError_t {honest}("
    )
    names = [name for _, name in parameters(task)]
    results = [arg for arg in task.args if arg.written]
    result = _beside(task, fault, results)
    seen = next((a for a in task.args if a.name == fault.watched), result)
    rows = "*".join(result.shape[:-1]) or "1"
    call = ", ".join(
        [
            result.name,
            _stride(result),
            result.shape[-1],
            _code(result),
            seen.name,
            _stride(seen) if len(seen.shape) > 1 else "0",
            seen.shape[-1],
            _code(seen),
        ]
    )
    first, blocks = (
        ("0", f"static_cast<unsigned>({rows})") if fault.watched else (f"{rows} - 1", "1")
    )
    return (
        f"{head}{SPOIL.replace('VALUE', fault.value)}\n{prototype(task)} {{\n"
        f"  const cudaError_t status = {honest}({', '.join(names)});\n"
        f"  if (status != cudaSuccess || !({fault.condition})) return status;\n"
        f"  planted::spoil<<<{blocks}, 128, 0, stream>>>({call}, {first});\n"
        "  return cudaGetLastError();\n}\n"
    )


def _beside(task: Task, fault: Fault, results: list[Arg]) -> Arg:
    """The result that is spoiled: of a watched argument's shape where there is one."""
    shapes = {arg.name: arg.shape for arg in task.args}
    wanted = shapes.get(fault.watched)
    return next((arg for arg in results if arg.shape == wanted), results[0])


def _largest(arg: Arg) -> float:
    """The largest legal magnitude."""
    return arg.largest or max(map(abs, arg.range or (1.0,)))


def _stride(arg: Arg) -> str:
    return f"{arg.name}_stride" if arg.strided else arg.shape[-1]


def _code(arg: Arg) -> str:
    return "dtype" if arg.dtype == "T" else str(DTYPE_CODES[arg.dtype])


def faults(task: Task, count: int, seed: str) -> Iterator[Fault]:
    """So many faults, by a seed."""
    yield from Planter(task, random.Random(f"{seed} {task.name}")).draw(count)
