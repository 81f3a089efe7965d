"""A child for tests of the sandbox: a candidate's host code in a process of ours, as on a real GPU.

Kernels run on the virtual GPU, in this process, so no GPU is needed.
"""

from __future__ import annotations

import json

from astra_chat.tools.run.protocol import VirtualRequest
from astra_chat.tools.runners.arguments import launch, limit_files_and_cores, poison
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.virtual_gpu.adapter import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec


def main() -> None:
    reporter = Reporter()
    limit_files_and_cores()
    request = VirtualRequest.model_validate_json(json.dumps(reporter.request))
    task, gpu = load_task(request.task), VirtualGpu(spec(request.spec), engine="numpy")
    lock(reporter.pipe)
    library = gpu.load(request.ptx.with_suffix(".so"), request.ptx, request.resources)
    for index, call in enumerate(request.calls):
        reporter.send("start", index=index)
        arrays = [poison(task, call, i, call.pattern) for i in range(len(task.args))]
        addresses = [gpu.register(a, arg.name) for a, arg in zip(arrays, task.args, strict=True)]
        status = launch(library, task, call.case, addresses, 0)
        for arg, array in zip(task.args, arrays, strict=True):
            array.tofile(call.after / f"{arg.name}.after")
        reporter.send("case", index=index, status=status)


if __name__ == "__main__":
    main()
