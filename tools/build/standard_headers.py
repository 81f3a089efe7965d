"""A standard header in a form that brings no code of its own.

Before GCC 13, <iostream> puts an object into every file that includes it, whose constructor runs
when the library is loaded. cub's and thrust's headers include it (block_load.cuh does), so every
kernel that uses them would have host code that runs at load, which the audit refuses.
"""

from __future__ import annotations

FOLDER = "standard"
"""Folder of these headers, beside the source; searched before the compiler's own headers."""
HEADERS = {
    f"{FOLDER}/iostream": """#pragma once
#include <istream>
#include <ostream>
namespace std {
extern istream cin;
extern ostream cout, cerr, clog;
extern wistream wcin;
extern wostream wcout, wcerr, wclog;
}
"""
}
"""Texts of the headers, by path relative to the source's folder."""
FLAGS = ("-isystem", FOLDER)
