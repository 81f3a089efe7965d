"""The model: counters to an estimated time on a named GPU.

estimate    counters to time, and its bottleneck
traffic     bytes from L1, L2 and DRAM
issue       issue slots and arithmetic units of an SM
occupancy   blocks per SM, and launches that a GPU refuses
bottleneck  the largest term, as text
"""
