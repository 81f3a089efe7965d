"""Programs of one rank: a process of its own, the only place here that loads torch.

rank            the program: memory is shared with the peers, then calls are checked or timed
checking        calls with changing data and skewed arrivals, compared with float64
timing          calls of all sides by turns, all ranks starting together
cuda_memory     memory, launches and delays on a real GPU
virtual_memory  the same on a virtual GPU; peers' memory is that of other processes
stops           stops of a rank on a virtual GPU, in the middle of its kernels
"""
