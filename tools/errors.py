"""Failures that are not the kernel's: bad input (exit 2) and a machine that lacks something (3)."""


class AstraError(Exception):
    """Base of the failures that the command line shows as one line, without a traceback."""

    exit_code = 1


class BadInput(AstraError):
    """The user gave something that cannot be used: the message says what, where, and what to do."""

    exit_code = 2


class MissingDependency(AstraError):
    """This machine lacks something: the message names it and how to get it."""

    exit_code = 3
