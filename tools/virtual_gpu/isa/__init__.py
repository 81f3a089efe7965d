"""Instructions that both engines share: tensor cores, barriers, bulk copies.

fragments    wmma's fragments: which lane holds which element
matrices     mma: formats, shapes, layouts
mbarriers    barriers in shared memory (mbarrier)
bulk_copies  cp.async.bulk
"""
