"""What a candidate's host code launches, recorded as data: a launch plan for each case.

The candidate's launcher runs in a small walled C program without Python and without a GPU driver.
What it launches there is written down and believed in nothing.

record           the face: a plan for each case of a build, or what is wrong with the launcher
model            a launch plan: kernels, memsets, copies, parameter bytes and relocations
virtual_replay   runs plans on the virtual GPU
parameter_reads  which bytes of its parameters a kernel reads
stand_ins        drawn addresses in the place of device memory
process          one recorder process: request, walls, what its end means
report           what that process wrote, as values; how a launch failed
relocate         several recordings of a case made into one plan;
                 one where the host rounds otherwise
audit            a plan held against cubin, buffers and GPU
recorder/        the recorder's C sources
"""
