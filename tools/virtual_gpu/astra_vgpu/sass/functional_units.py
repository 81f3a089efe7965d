"""Which unit of an SM executes a machine instruction, and the latency of its result.

Latencies were measured one by one on an H200 (the lab's calibration/mechanisms: chains.cu and
latencies.cu, see docs/research/estimate.md). Instructions with a fixed latency need none here:
their stall cycles contain it.
"""

from __future__ import annotations

from astra_vgpu.sass.disassembly import MachineInstruction

_UNITS = {
    "xu": "MUFU I2F F2I F2F FRND POPC FLO BREV REDUX FCHK MATCH",
    "global_load": "LDG LD",
    "global_store": "STG ST",
    "global_copy": "LDGSTS",
    "atomic": "RED REDG ATOM ATOMG CCTL",
    "local": "LDL STL",
    "shared": "LDS STS ATOMS LDSM STSM SYNCS",
    "shuffle": "SHFL MOVM",
    "tensor": "HMMA IMMA DMMA QMMA BMMA",
    "barrier": "BAR",
    "f64": "DFMA DADD DMUL DSETP",
    "fma": "FFMA FMUL FADD FSWZADD",
    "imad": "IMAD",
    "half": "HFMA2 HADD2 HMUL2",
    "misc": "S2R S2UR LDC CS2R R2UR LEPC GETLMEMBASE",
    "control": "BRA EXIT BSSY BSYNC CALL RET BREAK WARPSYNC ENDCOLLECTIVE NOP MEMBAR ERRBAR "
    "DEPBAR LDGDEPBAR YIELD NANOSLEEP BPT BRX JMX KILL ACQBULK",
    "mov": "MOV VIADD",
}
UNITS = {
    "xu": "special functions, conversions to integers, counts of bits",
    "global_load": "loads from global memory",
    "global_store": "stores to global memory",
    "global_copy": "copies from global to shared memory",
    "atomic": "atomics on global memory",
    "local": "local memory: arrays and spilled registers",
    "shared": "shared memory",
    "shuffle": "shuffles",
    "tensor": "tensor cores",
    "barrier": "block barriers",
    "f64": "double precision",
    "fma": "sums and products of floats",
    "imad": "products of integers, and moves",
    "imad_wide": "wide products of integers",
    "half": "sums and products of halves",
    "misc": "special registers, constants",
    "control": "branches, fences",
    "mov": "moves and sums of integers that more than one unit does",
    "uniform": "scalars of a warp",
    "alu": "logic, comparisons, sums of integers, other conversions",
}
"""Units of an SM, and what they execute."""
MEMORY = frozenset(
    ("global_load", "global_store", "global_copy", "atomic", "local", "shared", "shuffle")
)
_BY_NAME = {name: unit for unit, names in _UNITS.items() for name in names.split()}

_CYCLES = {
    "SHFL": 23,
    "LDS": 23,
    "LDSM": 33,
    "ATOMS": 26,
    "REDUX": 30,
    "MATCH": 24,
    "ATOMG": 280,
    "ATOM": 280,
    "LDC": 30,
}
_UNIT_CYCLES = {
    "global_load": 0,
    "global_store": 0,
    "global_copy": 0,
    "atomic": 0,
    "local": 0,
    "xu": 17,
    "shared": 24,
    "shuffle": 24,
    "misc": 28,
    "tensor": 24,
    "f64": 12,
    "barrier": 10,
    "control": 10,
}
_OTHER_CYCLES = 20
XU_CYCLES = 8
"""Cycles between two warp instructions of the unit for special functions."""
FENCE_CYCLES = {"CTA": 19, "GPU": 398, "SYS": 1026}
"""Cycles of a fence behind one store, by its scope, on an idle GPU; some twice as many where all
SMs store."""
TENSOR_CYCLES = {"HMMA": 7, "IMMA": 7, "DMMA": 14}
"""Cycles between two of one warp's instructions on its tensor core."""
BRANCH_CYCLES = 4
"""Cycles of a branch and of a meeting of parted lanes, beyond their stall cycles."""
READ_CYCLES, MEMORY_READ_CYCLES = 4, 14
"""Cycles until operands were read: of others, and of instructions that go to memory."""


def unit_of(instruction: MachineInstruction) -> str:
    """One of UNITS: xu is that of special functions, uniform the scalar one, imad_wide products of
    64 bits or their upper half."""
    name = instruction.name
    if name == "IMAD" and {"WIDE", "HI"}.intersection(instruction.opcode.split(".")):
        return "imad_wide"
    if name in _BY_NAME:
        return _BY_NAME[name]
    return "uniform" if name.startswith("U") else "alu"


def latency(instruction: MachineInstruction) -> int:
    """Cycles until the result is there, without the wait for loads from global memory."""
    if instruction.name == "MEMBAR":
        scopes = (FENCE_CYCLES.get(part, 0) for part in instruction.opcode.split("."))
        return max(scopes)
    unit_cycles = _UNIT_CYCLES.get(unit_of(instruction), _OTHER_CYCLES)
    return _CYCLES.get(instruction.name, unit_cycles)


def loads(instruction: MachineInstruction) -> bool:
    """Waiting for its scoreboard is waiting for loads from global memory."""
    return instruction.name in ("LDG", "LD", "LDGDEPBAR")
