"""Machine code (SASS): what a kernel's machine instructions execute, from nvdisasm's text.

disassembly       nvdisasm's text: instructions, control bits, PTX lines
control_flow      basic blocks and natural loops
block_mapping     which PTX block each SASS block belongs to
execution_counts  how often each SASS block ran
functional_units  unit and latency of each opcode
pipeline          cycles of a lone warp, and how often it waits for memory
early_loads       loads that stand before griddepcontrol.wait
store_merging     stores that L1 merges
counters          the counters of a launch from its machine code
"""
