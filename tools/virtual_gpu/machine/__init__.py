"""What the real machine code of a kernel executes, from nvdisasm's text and visits of PTX blocks.

disassembly.py  the text, one kernel at a time     units.py       units and latencies of opcodes
flow.py         basic blocks and loops             pipeline.py    cycles and rounds of each block
placement.py    which PTX block each belongs to    executions.py  how often each of them ran
stores.py       stores that L1 puts together       counts.py     the counters of a launch
"""
