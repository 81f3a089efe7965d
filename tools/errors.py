"""Failures that are not the kernel's: bad input (exit code 2), and an environment that lacks
something or an error of our own (3). 1 is left to the kernel's."""


class AstraError(Exception):
    """Base of the failures that the command line shows as one line, without a traceback."""

    exit_code = 3


class BadInput(AstraError):
    """The user gave something that cannot be used: the message says what, where, and what to do."""

    exit_code = 2


class MissingDependency(AstraError):
    """This machine lacks something: the message names it and how to get it."""

    exit_code = 3
