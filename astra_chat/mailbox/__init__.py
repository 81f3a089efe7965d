"""Questions of a run as folders, which whoever can write a file answers. It needs no AutoGen.

files      reads and writes files that others may write, too
questions  a question's folder: asked, listed, found
brief      a question without what the role was told before
runs       the runs that ask in a mailbox, and waiting for one
answers    given once, taken once
checking   an answer held against schema and facts before it is given
"""
