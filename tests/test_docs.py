"""What the documents name exists: links, paths, commands, modules, tests."""

from __future__ import annotations

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.models.script import load_script, scripted_names
from astra_chat.tools.recordings.reading import expanded, in_archive
from astra_chat.tools.task.folder import find_task
from lab.attack_kernels import kernels
from tests.sources import ROOT, TESTS

VIRTUAL_GPU = "tools/virtual_gpu/"
"""Its pages name its own files by their paths in it."""
# walked.md, which a program writes, has the commands of all others.
DOCUMENTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [
        *ROOT.glob("*.md"),
        ROOT / "transcripts/README.md",
        *sorted(set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs/walked.md"}),
        *sorted((ROOT / VIRTUAL_GPU).glob("*.md")),
        *sorted((ROOT / VIRTUAL_GPU / "docs").glob("*.md")),
    ]
}
FOLDERS = ("astra_chat", "agents", "tools", "sglang_kernels", "lab", "tests", "docs", "transcripts")
NAMES = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")}
"""Names of all files in the repository's folders, of the honest kernels, which are an archive, and
of those that scripts store as edits."""
NAMES |= kernels("honest").keys() | kernels("attacks").keys()
NAMES |= {
    kernel.file for name in scripted_names() for kernel in load_script(find_task(name)).kernels()
}
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
FILE = re.compile(r"(?<![\w./<>*-])(\w+\.(?:py|md|toml|cu))\b")
OF_A_MAILBOX = {"prompt.md", "words.md", "closed.md"}
OF_A_CAMPAIGN = {"results.md"}
OF_OTHER_PROJECTS = {"docs/research/found-bugs.md", "docs/research/programs.md"}
"""Pages that name other projects' files."""
A_USERS_FILES = set(
    (
        "my.cu mine.cu rms.cu rope.cu faster.cu best.cu kernel.cu kernel.py app.cu reduce.cu a.cu"
        " b.cu compare.toml scale.cu test_scale.py torch_op.py load_example.py norms.py serve.py"
        " gate.cu gates.py astra.toml launcher.cu cards.toml problem.py old.cu new.cu wrong.cu"
        " marked.cu best.py"
    ).split()
)
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*<>-]*")
MADE_BY_A_RUN = ("transcripts/<", "transcripts/silu_and_mul-2", "transcripts/compare")
COMMAND = re.compile(r"^(?: {4}|\$ )?(astra-chat .*)$", re.MULTILINE)
INLINE_COMMAND = re.compile(r"`(astra-chat [^`]*)`")
MODULE = re.compile(r"python -m ((?:astra_chat|astra_vgpu|lab)\b[\w.]*)(?: (\w+))?")
TARGET = re.compile(r"(?:`|^    )make (\w+)", re.MULTILINE)
TEST = re.compile(r"`(test_\w+)`")
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LEFT_OUT = ("astra-chat: ",)
"""What the program prints, not what a user types."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_to_a_file(name: str) -> None:
    folder = (ROOT / name).parent
    # `kernel[grid](...)` is no link.
    targets = [t for t in LINK.findall(PYTHON.sub("", DOCUMENTS[name])) if "://" not in t]
    assert [t for t in targets if not (folder / t).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_path_exists(name: str) -> None:
    paths = {path.rstrip(".") for path in PATH.findall(DOCUMENTS[name])}
    globs = [p.rstrip("/").replace("TASK", "*") for p in paths if not p.startswith(MADE_BY_A_RUN)]
    members = {glob for glob in globs if in_archive(Path(glob))}
    places = [ROOT, ROOT / VIRTUAL_GPU] if name.startswith(VIRTUAL_GPU) else [ROOT]
    unknown = {*globs} - members
    assert sorted(g for g in unknown if not any(any(place.glob(g)) for place in places)) == []
    expanded(ROOT / member for member in members)  # raises BadInput for one that is not there


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - OF_OTHER_PROJECTS))
def test_every_file_named_without_its_folder_is_one_of_ours(name: str) -> None:
    files = set(FILE.findall(DOCUMENTS[name])) - A_USERS_FILES - OF_A_MAILBOX - OF_A_CAMPAIGN
    assert sorted(f for f in files if f not in NAMES and not f[0].isupper()) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_command_is_one_that_the_program_takes(name: str) -> None:
    text = DOCUMENTS[name].replace("\\\n", " ")
    lines = COMMAND.findall(text) + [" ".join(c.split()) for c in INLINE_COMMAND.findall(text)]
    refusals = [refusal(line) for line in lines if not line.startswith(LEFT_OUT)]
    assert [text for text in refusals if text] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_module_target_and_test_is_there(name: str) -> None:
    text = DOCUMENTS[name]
    modules = {module for module, _ in MODULE.findall(text)}
    assert [module for module in sorted(modules) if find_spec(module) is None] == []
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(TARGET.findall(text)) <= set(targets)
    wanted = set(TEST.findall(text))
    assert wanted <= names_of_tests()


@pytest.mark.parametrize("folder", ["docs", "docs/research"])
def test_an_index_links_every_page_of_its_folder(folder: str) -> None:
    pages = {path.name for path in (ROOT / folder).glob("*.md")} - {"index.md"}
    assert pages <= set(LINK.findall(DOCUMENTS[f"{folder}/index.md"]))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_python_blocks_name_what_there_is(name: str) -> None:
    for block in PYTHON.findall(DOCUMENTS[name]):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = __import__(node.module, fromlist=[a.name for a in node.names])
                assert all(hasattr(module, a.name) for a in node.names), block


def test_agents_md_answers_with_one_file_and_the_readme_is_short() -> None:
    table = re.search(r"## Where to start\n(.*?)\n## ", DOCUMENTS["AGENTS.md"], re.DOTALL)
    assert table
    rows = [line.split("|")[1:3] for line in table[1].splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for question, answer in rows:
        file = answer.split()[0].rstrip(";")
        assert (ROOT / file).is_file(), question
    assert len(DOCUMENTS["README.md"].splitlines()) <= 90


def test_the_readmes_figures_are_those_of_the_pages() -> None:
    readme, results = DOCUMENTS["README.md"], DOCUMENTS["docs/results.md"]
    today, h200 = re.split("^## ", results, flags=re.MULTILINE)[1:3]
    over_today = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \|", today, re.MULTILINE))
    rows = re.findall(r"^\| (\w+) \|(.+)\|$", h200, re.MULTILINE)
    best = {task: max(_figures(row)) for task, row in rows if _figures(row)}
    shown = re.findall(r"(\w+) \| ([\d.]+)x \| ([\d.]+)x", readme)
    assert {task: figure for task, figure, _ in shown} == over_today
    for task, _, over_start in shown:
        assert f"{best[task]:.2f}" == over_start, task
    mean = re.search(
        r"on an H200 over the 15 tasks with a rival for every case: \*\*([\d.]+)", today
    )
    assert mean and f"these 15* | {mean[1]}x" in readme
    lost = re.search(r"### Lost cases: (\d+ of \d+)", DOCUMENTS["docs/research/over-today.md"])
    assert lost and f"{lost[1]} in the last run" in " ".join(readme.split())


def _figures(row: str) -> list[float]:
    """The best runs from `sglang`, team and single: in the last two of six cells, or after the
    aim."""
    cells = row.split("|")
    return [
        max(map(float, re.findall(r"\d+\.\d+", cell)))
        for cell in (cells[-2:] if len(cells) == 6 else cells[1:3])
        if re.search(r"\d\.\d", cell)
    ]


def test_the_readme_counts_what_the_pages_count() -> None:
    readme, research = " ".join(DOCUMENTS["README.md"].split()), "docs/research/"
    attacks, wrong = DOCUMENTS[f"{research}attacks.md"], DOCUMENTS[f"{research}wrong-kernels.md"]
    for gpu in ("h200", "h100"):
        row = re.search(rf"`{gpu}` .*: (\d+ of \d+) attacks.*; (\d+ of \d+) honest", attacks)
        assert row and all(count in readme for count in row.groups())
    row = re.search(r"\*\*all\*\* \| (\d+) \| (\d+) \|", wrong)
    assert row and f"found {row[2]} of {row[1]} subtly wrong kernels in the first" in readme


def names_of_tests() -> set[str]:
    """Names of all test functions."""
    files = (path for folder in TESTS for path in (ROOT / folder).rglob("test_*.py"))
    texts = (path.read_text() for path in files)
    return {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}


def refusal(line: str) -> str:
    """What the program says against the command, its options and their number; nothing is run."""
    words = shlex.split(re.split(" > | [|][|] | -- ", line)[0], comments=True)[1:]
    arguments = [word.split("|")[0].rstrip(".") for word in words]
    arguments = ["run" if word == "COMMAND" else word for word in arguments if word]
    result = CliRunner().invoke(app, [*arguments, "--help"])
    return "" if result.exit_code == 0 else f"{line}: {result.output}"
