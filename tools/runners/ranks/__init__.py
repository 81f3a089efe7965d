"""Programs of one rank of a kernel over several GPUs: a process of its own.

rank            the program: memory is shared with the peers, then calls are checked or timed
checking        calls with changing data and skewed arrivals
comparing       their results, beside float64
counting        calls on a virtual GPU with all counters, and the bytes that cross links:
                memory that notes which of its bytes are read
timing          calls of all sides by turns, all ranks starting together
cuda_memory     memory, launches and delays on a real GPU
virtual_memory  the same on a virtual GPU; peers' memory is that of other processes
boards          how far each rank is on virtual GPUs, for its peers to see
drawn_pauses    stops of a rank on a virtual GPU, before drawn accesses of shared memory
"""
