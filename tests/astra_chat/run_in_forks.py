"""Runs commands of astra-chat, each in a fork of a process that has loaded the program once.

Reads a JSON list of [folder, [word, ...]] on stdin; prints a JSON list of
{code, out, err, peak_bytes}.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import astra_chat.replay.prompts
import astra_chat.replay.rejudge
import astra_chat.replay.rerun
import astra_chat.session.api  # noqa: F401
from astra_chat.cli.main import main
from astra_chat.tools.system.background import finish_removals

CPU_S = 20


def run(folder: str, words: list[str]) -> dict[str, Any]:
    names = [Path(folder) / name for name in ("stdout", "stderr")]
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        for number, name in enumerate(names, 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
        os.chdir(folder)
        sys.argv = ["astra-chat", *words]
        code = 1
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            finish_removals()
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    out, err = (name.read_text(errors="replace") for name in names)
    for name in names:
        name.unlink()
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "out": out, "err": err, "peak_bytes": used.ru_maxrss * 1024}


if __name__ == "__main__":
    print(json.dumps([run(folder, words) for folder, words in json.load(sys.stdin)]))
