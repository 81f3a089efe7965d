"""Recorded runs again: shown, judged, or run from recorded replies.

show     prints a recorded run, or some of its turns
rejudge  a transcript's candidates judged on this machine
rerun    the chat run again from recorded replies
prompts  the prompts of a recorded run
"""
