"""The recorder process, in C: it calls a launcher and writes down what that asks of CUDA.

main          reads the request, puts up the wall, calls the launcher, one recording after another
request       the request as values: device, kernels of the cubin, variables, calls
lock          seccomp: what the process may still do once the candidate's code is loaded; the
              signals that a launcher may run into, as one line of the report
host          what the calls of the fake CUDA runtime mean here: launches, attributes
launch_limits occupancy, and the error of a launch beyond a limit
host_state    floating-point state, signals, locale: in which a launcher is called
memory        memsets and copies
facts         what a launcher asks about the device
tensor_maps   cudaGetDriverEntryPoint and the two encoders that it gives out
refused       the calls whose effect no plan can hold
report        JSON lines, with what the launcher's own text says: why it fails, what memory it
              asks for

The program's own symbols come before those of the fake runtime (astra_vgpu/cudart), so a
call that is defined here never reaches it.
"""
