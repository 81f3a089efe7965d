"""What the GPU says of itself while it is timed: clocks, temperature, power, throttling."""

from __future__ import annotations

import pynvml

THROTTLING = (
    pynvml.nvmlClocksThrottleReasonHwSlowdown
    | pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonSwPowerCap
)


class Clock:
    """Reads NVML; a block that ran throttled is left out by the judge."""

    def __init__(self, index: int) -> None:
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)

    def read(self) -> dict[str, int | bool]:
        handle = self._handle
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return {
            "sm_clock_mhz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            "temperature_c": int(
                pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
            ),
            "power_w": int(pynvml.nvmlDeviceGetPowerUsage(handle)) // 1000,
            "throttled": bool(reasons & THROTTLING),
        }
