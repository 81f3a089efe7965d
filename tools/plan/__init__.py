"""What a candidate's host code launches, recorded as data: a launch plan for each case.

The candidate's launcher runs in a small walled C program without Python and without a GPU driver.
What it launches there is written down and believed in nothing.

model           a launch plan: kernels, memsets, copies, parameter bytes and relocations
virtual_replay  runs plans on the virtual GPU
"""
