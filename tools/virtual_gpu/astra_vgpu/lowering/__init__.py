"""Lowering: from a parsed kernel to what the engines run and the model counts.

inline             device functions inlined into a kernel
recursion          recursive functions and alloca: a stack in local memory
function_pointers  addresses of device functions, and calls through them
clusters           barriers and ranks of clusters, of one block each
vector_atomics     vector atomics as scalar ones
control_flow       basic blocks and the terminators between them
basic_block_order  order of basic blocks in which divergent lanes reconverge
post_dominators    basic blocks through which all lanes of one come later
clock_waits        loops that only wait for a clock
waits              loads and atomics in loops that wait for other threads
regions            basic blocks that ptxas merges: predication and unrolling
float_bits         registers of floats whose bits are read
float_stores       stores of floats that the kernel computed
ordered_accesses   loads and stores that order something
data_reads         atomic operations and acquire loads that fetch data
parameter_places   parameters that are read through a register
pointer_reach      which arguments a kernel may load and store through
variable_stores    module variables that a kernel may store to
early_access       accesses that some path leads to without griddepcontrol.wait
symbolic_values    values of registers along one path, as far as they are known
shared_arrays      the arrays in shared memory that an access may be to
unset_registers    registers that may be read before they are set
local_memory       which accesses to local memory the machine code makes
store_merging      stores that L1 passes to L2 together
"""
