"""The virtual GPU: nvcc's PTX on the CPU, with sanitizer, exact counters and a time estimate.

It stands alone: nothing in here knows of tasks or chats.

    ground/         errors, GPU data, toolkit, cache, ELF: what the rest stands on
    gpu.py          VirtualGpu: load a kernel file, run its launches, read reports
    types.py        Launch, Counters, LaunchReport, Fault: the values that the parts exchange
    ptx/            PTX parser and validation
    lowering/       from a parsed kernel to basic blocks: inlining, control flow, local memory
    isa/            instructions that both engines share: tensor cores, mbarriers, bulk copies
    numpy_engine/   runs a kernel with NumPy: starts at once; the reference
    c_engine/       runs a kernel as compiled C: 20 times as fast
    launch/         choice of the engine, sampling of blocks, compilation in the background
    memory/         device memory, heap, races between blocks, uninitialized reads
    sass/           counters from the machine code (SASS) that nvdisasm prints
    model/          from counters to an estimated time: occupancy, traffic, issue, bottleneck
    cudart/         the fake CUDA runtime, in C
    runtime/        the fake CUDA runtime bound to Python, device printf, nvcc
    programs/       whole CUDA programs with their own main()

Command line: `astra-vgpu run PROGRAM.cu`, or `python -m astra_vgpu run PROGRAM.cu`.
"""
