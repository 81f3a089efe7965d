"""Instructions that both engines share: tensor cores, mbarriers, bulk copies.

matrices     mma, wmma, ldmatrix: formats, shapes, layouts, numerics
fragments    wmma fragments: which lane holds which element
mbarriers    barriers in shared memory (mbarrier)
clocks       time as a kernel sees it: clocks and nanosleep
bulk_copies  cp.async.bulk (TMA without tensor maps)
"""
