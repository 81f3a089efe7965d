"""The virtual GPU: nvcc's real PTX run on host memory, with sanitizer, counters and an estimate.

It stands alone: nothing in here knows of tasks or chats.

    ptx.py      text -> Module of Kernels      specs.py     constants of real GPUs, with sources
    flow.py     control flow, block order      limits.py    occupancy, launches a GPU refuses
    memory.py   buffers, bounds, coverage      estimate.py  counters -> time, limit, bottleneck
    numpy_engine/, c_engine/  run a Kernel     sampling.py  which blocks of a large launch run
    cudart/     fake CUDA runtime, in C        gpu.py       VirtualGpu: all of it, for one process
    runtime.py  builds and binds it            engines.py   NumPy or C for a launch
    traffic.py  bytes by level of cache        compile.py   a .cu file, by nvcc
    machine/    counters from machine code     issue.py     issue slots and units of an SM
    programs.py whole programs: worker.py, program_host.py, guard.py
    validate.py the estimate against a GPU's times: validation/
    __main__.py `python -m astra_chat.tools.virtual_gpu run|validate|bench`, bench.py
"""
