"""Run by tests/astra_chat/package/test_plugin.py: an engine of two functions with the plugin before
them, whose module runs on the virtual GPU.

Arguments: the module, its PTX, and as JSON the registers and shared memory of its kernels. Tensors
of torch on the host are presented as CUDA tensors where the module is called.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import tvm_ffi
from call_binding import DeviceTensor  # beside this file

from astra_chat.tools.virtual_gpu.adapter import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec


def main() -> None:
    import astra_winners.operators as operators
    import sglang.kernels.ops.activation.activation as activation
    from astra_winners import plugin
    from sglang.srt.plugins import load_plugins

    module, ptx, resources = sys.argv[1:]
    gpu = VirtualGpu(spec("h200"))
    gpu.load(Path(module), Path(ptx), {n: (r, s) for n, (r, s) in json.loads(resources).items()})
    function = tvm_ffi.load_module(module).silu_and_mul

    def launch(out: torch.Tensor, given: torch.Tensor) -> None:
        arrays = [out.numpy(), given.numpy()]
        for array, name in zip(arrays, ("out", "input"), strict=True):
            gpu.register(array, name)
        function(*(tvm_ffi.from_dlpack(DeviceTensor(array)) for array in arrays))

    operators.gpu = lambda: ("NVIDIA H200", "sm_90")
    operators.module_function = lambda *_: launch
    load_plugins()
    x = torch.randn(5, 272).half()
    found: dict[str, Any] = {"fits": [fit.words for fit in plugin.FITS]}
    for name, given, kind in (
        ("ours", x, "silu"),
        ("other", x, "gelu"),
        ("odd", x[:, :24], "silu"),
    ):
        given = given.contiguous()
        out = torch.zeros(given.shape[0], given.shape[1] // 2).half()
        activation.run(kind, given, out)
        gate, up = given.float().chunk(2, -1)
        right = torch.nn.functional.silu(gate) * up
        found[name] = float((out.float() - right).abs().max())
        found[f"{name} original"] = activation.CALLS.count(kind)
    found["empty"] = activation.run("silu", x[:0].contiguous(), torch.zeros(0, 136).half())
    found["counts"] = [[*key, n] for key, n in operators.COUNTERS.totals().items()]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
