"""Constants of real GPUs, each with its source, and the physical limit of a kernel's time.

"measured" = on an H200 by this project. Sources: [H100] NVIDIA H100 Tensor Core GPU Architecture
whitepaper; [H200] NVIDIA H200 datasheet; [A100] NVIDIA A100 Tensor Core GPU Architecture
whitepaper; [L40S] NVIDIA L40S datasheet; [Ada] NVIDIA Ada GPU Architecture whitepaper; [HGX] NVIDIA
HGX B200 datasheet, an eighth; [B200] the driver's answers in pytorch/ao, pull request 4002; [RTX50]
NVIDIA RTX Blackwell GPU Architecture whitepaper; [CUDA] CUDA C++ Programming Guide, tables
"Technical Specifications per Compute Capability" and "Throughput of Native Arithmetic
Instructions".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from astra_vgpu.ground.errors import BadInput

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True)
class GpuSpec:
    """Constants of one GPU."""

    key: str
    name: str
    """Name as the driver gives it."""
    compute: tuple[int, int]
    """Compute capability."""
    sms: int
    sm_clock_hz: float
    """Highest boost clock."""
    memory_bytes: int
    memory_bus_bits: int
    dram_bytes_per_s: float
    """Theoretical bandwidth of DRAM."""
    dram_reachable: float
    """Share of the DRAM bandwidth that a streaming kernel reaches."""
    l1_bytes: int
    """L1 of an SM, shared memory included."""
    l2_bytes: int
    l2_bytes_per_s: float
    """Read bandwidth of L2 for all SMs together."""
    fp32_flops: float
    """Peak outside tensor cores, a fused multiply-add counted as two."""
    tensor_flops: float
    """Peak of the tensor cores for dense 16-bit floats, whatever they are summed in."""
    fp32_lanes: int
    """Results a clock and SM; so for the lanes below."""
    launch_floor_us: float
    """Time of an empty kernel inside a CUDA graph."""
    block_dispatch_ns: float
    """Time between two block starts."""
    dram_latency_cycles: float
    """Latency of a load from DRAM."""
    l2_latency_cycles: float
    tensor_cycles: float
    """Cycles that an SM takes for each mma.sync m16n8k16 of 16-bit floats with sums in fp32."""
    tested: bool = False
    """Whether this project has judged kernels on one."""
    threads_per_sm: int = 2048  # [CUDA] 8.0, 9.0, 10.0
    blocks_per_sm: int = 32  # [CUDA] 8.0, 9.0, 10.0
    shared_per_sm: int = 228 * KIB  # [CUDA] 9.0, 10.0
    shared_per_block_optin: int = 227 * KIB  # [CUDA] 9.0, 10.0
    shared_per_block: int = 48 * KIB  # [CUDA] all
    """Most shared memory of a block, in bytes, without opt-in."""
    shared_reserved_per_block: int = 1 * KIB  # [CUDA] 8.0 to 9.0
    """Shared memory of each block, in bytes, that the driver reserves."""
    registers_per_sm: int = 65536  # [CUDA] all
    schedulers_per_sm: int = 4  # [H100], [A100], [Ada]
    """Warp instructions issued a clock."""
    int_lanes: int = 64  # [CUDA] 8.0 to 9.0: logic, comparisons, shifts
    half_lanes: int = 256  # [CUDA] 8.0, 9.0
    special_lanes: int = 16  # [CUDA] 8.0 to 9.0
    convert_lanes: int = 64  # [CUDA] 9.0; measured: 45 to 90 by kind
    l2_bytes_per_clock: int = 64  # measured; [A100] gives 64 too
    """What an SM takes from L2 a clock."""

    @property
    def arch(self) -> str:
        """Real architecture that nvcc builds for: "sm_90"."""
        return f"sm_{self.compute[0]}{self.compute[1]}"

    @property
    def clocks_per_us(self) -> float:
        return self.sm_clock_hz * 1e-6


_H200 = GpuSpec(
    key="h200",
    name="NVIDIA H200",
    compute=(9, 0),
    sms=132,  # [H200]
    sm_clock_hz=1.98e9,  # [H100] SXM: 66.9 Tflop/s over 132 SMs x 256
    memory_bytes=143155 * MIB,  # measured: cudaDeviceProp
    memory_bus_bits=6016,  # measured: cudaDeviceProp
    dram_bytes_per_s=4.8e12,  # [H200]
    dram_reachable=0.91,  # measured: 4.37 TB/s, two bytes read for each written
    l1_bytes=256 * KIB,  # [H100]
    l2_bytes=60 * MIB,  # measured: cudaDeviceProp.l2CacheSize
    l2_bytes_per_s=8.4e12,  # measured: 48 MB read over and over
    fp32_flops=66.9e12,  # [H200]
    tensor_flops=989.5e12,  # [H200]
    fp32_lanes=128,  # [CUDA] 9.0
    launch_floor_us=0.5,  # measured: 0.498 to 0.63, by threads and blocks
    block_dispatch_ns=0.604,  # measured: empty kernels of 1024 to 131072 blocks
    dram_latency_cycles=665,  # measured: pointer chase over 1 GB, L2 flushed
    l2_latency_cycles=287,  # measured: the same again, within L2
    tensor_cycles=1.73,  # measured: 64 warps an SM; 1,184 multiply-adds a clock
    tested=True,
)

# Values that no vendor document gives are those of the H200, unchecked on other GPUs:
# dram_reachable, launch_floor_us, block_dispatch_ns, both latencies; for the consumer's chips
# l2_bytes_per_s too, and for B200 that times its SMs.
_H100 = replace(
    _H200,
    key="h100",
    name="NVIDIA H100 80GB HBM3",
    memory_bytes=80 * GIB,  # [H100] SXM5
    memory_bus_bits=5120,  # [H100]
    dram_bytes_per_s=3.35e12,  # [H100] SXM5
    l2_bytes=50 * MIB,  # [H100]
)

_B200 = replace(
    _H200,
    key="b200",
    name="NVIDIA B200",
    compute=(10, 0),
    sms=148,  # [B200]
    sm_clock_hz=1.98e9,  # [HGX] 75 Tflop/s over 148 SMs x 256
    memory_bytes=182630 * MIB,  # [B200] 178.35 GiB
    memory_bus_bits=7680,  # [B200]
    dram_bytes_per_s=7.7e12,  # [HGX]
    l2_bytes=126 * MIB,  # [B200] 126.5
    l2_bytes_per_s=8.4e12 * 148 / 132,  # unchecked
    fp32_flops=75e12,  # [HGX]
    tensor_flops=2250e12,  # [HGX]
    tested=False,
)

_A100 = replace(
    _H200,
    key="a100",
    name="NVIDIA A100-SXM4-80GB",
    tested=False,
    compute=(8, 0),
    sms=108,  # [A100]
    sm_clock_hz=1.41e9,  # [A100]
    memory_bytes=80 * GIB,  # [A100] 80 GB SXM
    memory_bus_bits=5120,  # [A100]
    dram_bytes_per_s=2.039e12,  # [A100] 80 GB SXM
    l1_bytes=192 * KIB,  # [A100]
    l2_bytes=40 * MIB,  # [A100]
    l2_bytes_per_s=5120 * 1.41e9,  # [A100] 5120 bytes a clock
    fp32_flops=19.5e12,  # [A100]
    tensor_flops=312e12,  # [A100]
    fp32_lanes=64,  # [CUDA] 8.0
    tensor_cycles=2.0,  # [A100] 312 Tflop/s: 1,024 multiply-adds a clock and SM
    shared_per_sm=164 * KIB,  # [CUDA] 8.0
    shared_per_block_optin=163 * KIB,  # [CUDA] 8.0
)

_RTX4090 = replace(
    _H200,
    key="rtx4090",
    name="NVIDIA GeForce RTX 4090",
    tested=False,
    compute=(8, 9),
    sms=128,  # [Ada] table of the GeForce RTX 4090
    sm_clock_hz=2.52e9,  # [Ada]
    memory_bytes=24 * GIB,  # [Ada]
    memory_bus_bits=384,  # [Ada]
    dram_bytes_per_s=1.008e12,  # [Ada]
    l1_bytes=128 * KIB,  # [Ada]
    l2_bytes=72 * MIB,  # [Ada]
    fp32_flops=82.6e12,  # [Ada]
    tensor_flops=330.3e12,  # [Ada] sums in fp16
    half_lanes=128,  # [CUDA] 8.9
    tensor_cycles=8.0,  # [Ada] 165.2 Tflop/s with sums in fp32: 256 multiply-adds a clock and SM
    threads_per_sm=1536,  # [CUDA] 8.9
    blocks_per_sm=24,  # [CUDA] 8.9
    shared_per_sm=100 * KIB,  # [CUDA] 8.9
    shared_per_block_optin=99 * KIB,  # [CUDA] 8.9
)

_L40S = replace(
    _RTX4090,
    key="l40s",
    name="NVIDIA L40S",
    sms=142,  # [L40S] 18,176 cores
    memory_bytes=48 * GIB,  # [L40S]
    dram_bytes_per_s=864e9,  # [L40S]
    l2_bytes=96 * MIB,  # [Ada] AD102
    fp32_flops=91.6e12,  # [L40S]
    tensor_flops=362.1e12,  # [L40S]
    tensor_cycles=4.0,  # [L40S] 362 Tflop/s: 506 multiply-adds a clock and SM
)

_RTX5090 = replace(
    _RTX4090,
    key="rtx5090",
    name="NVIDIA GeForce RTX 5090",
    compute=(12, 0),
    sms=170,  # [RTX50] table of the GeForce RTX 5090; so the others
    sm_clock_hz=2.407e9,  # [RTX50]
    memory_bytes=32 * GIB,  # [RTX50]
    memory_bus_bits=512,  # [RTX50]
    dram_bytes_per_s=1.792e12,  # [RTX50]
    l2_bytes=96 * MIB,  # [RTX50]
    fp32_flops=104.8e12,  # [RTX50]
    tensor_flops=419e12,  # [RTX50] sums in fp16
)

SPECS = {s.key: s for s in (_H200, _H100, _B200, _A100, _L40S, _RTX4090, _RTX5090)}
DEFAULT_GPU = _H200.key
"""The GPU that is estimated for, and built for, where none is named."""

_DEVICE_WORDS = {
    "H200": "h200",
    "H100": "h100",
    "B200": "b200",
    "A100": "a100",
    "L40S": "l40s",
    "4090": "rtx4090",
    "5090": "rtx5090",
}
_OTHER_CHIPS = frozenset({"NVL", "PCIE", "40GB", "D", "LAPTOP"})
"""Name parts of variants with other memory or clocks than the constants above."""


def spec(key: str) -> GpuSpec:
    """Constants of the GPU of that key. Raises BadInput with the list of keys."""
    gpu = SPECS.get(key.lower())
    if gpu is None:
        raise BadInput(f"no constants for a GPU named '{key}': known are {', '.join(SPECS)}")
    return gpu


def spec_for_device_name(name: str) -> str | None:
    """Key for a driver's device name, "NVIDIA H200" -> "h200"; None without constants."""
    parts = name.upper().replace("-", " ").split()
    if _OTHER_CHIPS.intersection(parts):
        return None
    return next((key for word, key in _DEVICE_WORDS.items() if word in parts), None)


def limit_us(least_bytes: float, flops: float, spec: GpuSpec, *, tensor: bool = False) -> float:
    """Physical limit: the least time of a kernel that moves these bytes and does these operations,
    on tensor cores if it may."""
    peak = spec.tensor_flops if tensor else spec.fp32_flops
    return max(least_bytes / spec.dram_bytes_per_s * 1e6, flops / peak * 1e6, spec.launch_floor_us)
