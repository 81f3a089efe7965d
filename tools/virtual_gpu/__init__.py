"""The virtual GPU: nvcc's real PTX run on host memory, with sanitizer, counters and an estimate.

It stands alone: nothing in here knows of tasks or chats.

    gpu.py          VirtualGpu: all of it, for one process
    types.py        what the parts hand to each other
    ptx/            PTX text to values
    lowering/       a parsed kernel to what the engines run
    isa/            instructions that both engines share
    numpy_engine/   runs a kernel: starts at once
    c_engine/       runs a kernel: 20 times as fast, once compiled
    launch/         engine, sampling of blocks, background compilation
    memory/         buffers, heap, races, uninitialized reads
    machine/        counters from the real machine code
    model/          counters to an estimated time
    cudart/         the fake CUDA runtime, in C; runtime/ binds it to Python
    programs/       whole programs: `python -m astra_chat.tools.virtual_gpu run PROGRAM.cu`
    devtools/       for developers: bench, fuzz, validate, numerics
"""
