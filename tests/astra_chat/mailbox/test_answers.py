"""The first of two answers counts, half a file does not; nothing is lost."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from astra_chat.mailbox.answers import SETTLED_S, give, kernel_reply, refuse, require_open, take
from astra_chat.mailbox.files import Unreadable
from astra_chat.mailbox.questions import Question, ask
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.mailbox_samples import meta
from tests.full_disk import full_disk


@pytest.fixture
def question(tmp_path: Path) -> Question:
    return ask(tmp_path, meta("run-1-coder-r1a1-0"), "Write a kernel.\n", {})


def by_hand(question: Question, old: bool = True, **files: str) -> None:
    """Files named with _ for the dot; `old`: nobody has written to them lately."""
    for name, text in files.items():
        path = question.folder / name.replace("_", ".")
        path.write_text(text)
        if old:
            long_ago = time.time() - 10 * SETTLED_S
            os.utime(path, (long_ago, long_ago))


def test_an_answer_is_given_and_taken_once(question: Question) -> None:
    assert take(question) is None and question.state == "open"
    give(question, '{"reply": 1}', "Ada\n\x1b[31mLovelace")
    assert question.state == "answered"
    taken = take(question)
    assert taken is not None and (taken.reply, taken.again) == ('{"reply": 1}', False)
    assert taken.answered_by == "Ada \\x1b[31mLovelace"
    assert question.state == "closed"
    again = take(question)
    assert again is not None and again.again and again.reply == taken.reply


def test_of_two_answers_the_first_counts(question: Question) -> None:
    give(question, "first")
    with pytest.raises(BadInput, match="already has an answer"):
        give(question, "second")
    taken = take(question)
    assert taken is not None and taken.reply == "first"
    with pytest.raises(BadInput, match="is closed: the run has already taken an answer"):
        give(question, "third")


def test_of_many_at_the_same_time_one_counts(question: Question) -> None:
    said: list[str] = []

    def answer(name: str) -> None:
        try:
            give(question, name)
            said.append(name)
        except BadInput:
            pass

    threads = [threading.Thread(target=answer, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = take(question)
    assert taken is not None and taken.reply in said


def test_a_closed_question_takes_no_answer(question: Question, tmp_path: Path) -> None:
    ask(tmp_path, meta("run-1-coder-r1a1-1"), "Another.\n", {})
    with pytest.raises(BadInput, match="is closed: the run has since asked another"):
        require_open(question)


def test_what_was_taken_stays_whatever_is_written_later(question: Question) -> None:
    by_hand(question, reply_json='{"reply": 1}')
    take(question)
    by_hand(question, reply_json='{"reply": 2}')
    taken = take(question)
    assert taken is not None and taken.reply == '{"reply": 1}'


def test_a_whole_reply_by_hand(question: Question) -> None:
    (question.folder / "answered-by.txt").write_text("a person\n")
    by_hand(question, old=False, reply_json='{"reply": {"kind": "pass", "words": "no"}}')
    taken = take(question)
    assert taken is not None and json.loads(taken.reply)["reply"]["kind"] == "pass"
    assert taken.answered_by == "a person"


def test_half_a_reply_is_waited_for_until_it_is_whole(question: Question) -> None:
    by_hand(question, old=False, reply_json='{"reply": {"kind": "pa')
    assert take(question) is None and question.state == "answered"
    by_hand(question, old=False, reply_json='{"reply": {"kind": "pass", "words": "no"}}')
    assert take(question) is not None


def test_a_reply_that_stays_half_goes_to_the_chat(question: Question) -> None:
    by_hand(question, reply_json='{"reply": {"kind": "pa')
    taken = take(question)
    assert taken is not None and taken.reply == '{"reply": {"kind": "pa'


def test_a_kernel_needs_no_json(question: Question) -> None:
    source = 'printf("%d\\n", 3); // "quoted"\n'
    by_hand(question, kernel_cu=source)
    assert take(question) is None and question.state == "open", "its words are missing"
    by_hand(question, words_md="Wider loads.\n")
    assert question.state == "answered"
    taken = take(question)
    assert taken is not None
    assert json.loads(taken.reply) == {
        "reply": {"kind": "kernel", "words": "Wider loads.", "source": source}
    }
    assert json.loads(kernel_reply("w", "s"))["reply"]["source"] == "s"


def test_a_kernel_that_is_being_written_is_waited_for(question: Question) -> None:
    by_hand(question, words_md="Wider loads.")
    by_hand(question, old=False, kernel_cu="__global__ vo")
    assert take(question) is None


def test_a_kernel_is_no_answer_where_none_is_asked_for(tmp_path: Path) -> None:
    question = ask(tmp_path, meta("run-1-planner-r1a1-0", kernel=False), "A plan.\n", {})
    by_hand(question, kernel_cu="x", words_md="y")
    assert take(question) is None and question.state == "open"


def test_two_answers_by_hand_are_none(question: Question) -> None:
    by_hand(question, reply_json="{}", kernel_cu="x", words_md="y")
    with pytest.raises(Unreadable, match=r"reply.json and kernel.cu are two answers: delete one"):
        take(question)
    (question.folder / "reply.json").unlink()
    assert take(question) is not None


def test_a_forged_answer_is_said(question: Question) -> None:
    (question.folder / "given.json").write_text('{"reply": 3, "more": []}')
    with pytest.raises(Unreadable, match=r"given.json was not written by"):
        take(question)


def test_a_full_disk_loses_nothing(question: Question) -> None:
    by_hand(question, reply_json=json.dumps({"reply": "x" * 5000}))
    with full_disk(1000), pytest.raises(MissingDependency, match="cannot write"):
        take(question)
    taken = take(question)
    assert taken is not None and len(taken.reply) > 5000


def test_what_was_refused_is_kept_and_counted(question: Question) -> None:
    refuse(question, "{", "no JSON", "Ada")
    refuse(question, "{}", "it does not match the schema")
    give(question, '{"reply": 1}')
    taken = take(question)
    assert taken is not None and taken.refused == 2
    kept = json.loads((question.folder / "refused-1.json").read_text())
    assert kept == {"why": "no JSON", "reply": "{", "answered_by": "Ada"}


def test_a_triton_kernel_by_hand_is_a_python_file(question: Question) -> None:
    by_hand(question, kernel_py="import triton\n", words_md="In Triton.")
    assert question.state == "answered"
    taken = take(question)
    assert taken is not None and json.loads(taken.reply)["reply"]["source"] == "import triton\n"
