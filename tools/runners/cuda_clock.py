"""Clocks, temperature, power and throttling of the GPU while it is timed, by NVML."""

from __future__ import annotations

import pynvml

from astra_chat.tools.run.raw_times import ClockReading
from astra_chat.tools.system.devices import gpu_handles

THROTTLING = (
    pynvml.nvmlClocksThrottleReasonHwSlowdown
    | pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonSwPowerCap
)


class Clock:
    """Reads NVML; a block that ran throttled is left out by the judge."""

    def __init__(self, index: int) -> None:
        """`index` as CUDA counts."""
        self._handle = gpu_handles()[index]
        self.others = self._others()
        """Processes beside this one that had work on the GPU: they know nothing of our lease."""

    def read(self) -> ClockReading:
        handle = self._handle
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        hot = int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        return ClockReading(
            sm_clock_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            memory_clock_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            temperature_c=hot,
            power_w=int(pynvml.nvmlDeviceGetPowerUsage(handle)) // 1000,
            throttle_reasons=reasons,
            throttled=bool(reasons & THROTTLING),
        )

    def _others(self) -> int:
        """Seen from a container's or bubblewrap's own numbers of processes ours has another one: so
        they are counted, not named."""
        try:
            return max(0, len(pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)) - 1)
        except pynvml.NVMLError:  # not every driver says
            return 0
