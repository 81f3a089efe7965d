"""The program of our process; the untrusted one runs walled/inside/theirs.py.

asked  contract cases, the questions of walled/inside/ours.py, and times by turns
"""
