"""Device memory: buffers, heap, races between blocks, uninitialized reads.

buffers              host arrays at their own addresses, each registered at its exact size
heap                 the device heap: malloc and free in kernels
page_guard           device pages that host code cannot touch
block_order          what orders thread blocks: what is published and what was seen
block_races          races between thread blocks on global memory
warp_races           races on global memory between threads of a block
proxy_fences         bulk copies of what the same launch stored
bulk_stores          bulk copies to global memory that nobody has waited for
early_accesses       what a thread may touch before griddepcontrol.wait
uninitialized_reads  reads of memory that was never written
sparse               memory that costs only what is touched of it
stored_spans         which part of each buffer a block stored to
"""
