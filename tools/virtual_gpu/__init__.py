"""The virtual GPU: nvcc's real PTX run on host memory, with sanitizer, counters and an estimate.

It stands alone: nothing in here knows of tasks or chats.

    ptx.py      text -> Module of Kernels        specs.py     constants of real GPUs, with sources
    flow.py     control flow and block order     estimate.py  counters -> time, limit, bottleneck
    memory.py   buffers, bounds, coverage        runtime.py   the fake CUDA runtime: launches come in here
    numpy_engine/  runs a Kernel                 gpu.py       VirtualGpu: all of it, for one process
"""
