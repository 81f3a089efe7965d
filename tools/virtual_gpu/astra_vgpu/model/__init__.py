"""The performance model: from counters to an estimated time on a named GPU.

estimate        estimated time of a launch, and its terms
ratio_interval  prediction interval of the ratio of two estimates
launch_price    what one more launch in a call costs
constants       measured and fitted constants of the estimate
traffic         bytes from L1, L2 and DRAM
issue           issue slots and arithmetic units of an SM
occupancy       blocks per SM, and launches that a GPU refuses
bottleneck      the limiting term, as text
time_split      what an estimated time is made of, part by part
reachable       the floor of a task on a case
"""
