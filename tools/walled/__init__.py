"""Untrusted code in a process of PyTorch's, behind walls: other people's modules (lab/rejudge) and
torch extensions (extension/). A weaker level of trust than launch plans.

processes  a problem and a candidate in two walled processes
findings   what can be found, and how grave it is
inside/    the programs of the two processes
"""
