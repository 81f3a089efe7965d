"""A server on loopback that speaks OpenAI's protocol, well or badly; it keeps what it was asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from autogen_core.models import UserMessage

from astra_chat.agents.roles import instructions
from astra_chat.agents.turns import MODEL_ROLES
from astra_chat.models.script import Script
from astra_chat.models.scripted import ScriptedClient
from astra_chat.models.spec import Role


@dataclass(frozen=True)
class Reply:
    """What the server sends back."""

    body: str | bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drip_s: float = 0.0
    """Blanks before the body, one each 50 ms, for so long: no byte is late, the answer is."""
    lost: int = 0
    """Bytes that are promised and never sent: the connection breaks."""
    kind: str = "application/json"


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    """Headers by lower-case name."""
    body: dict[str, Any]

    @property
    def messages(self) -> list[str]:
        return [str(message["content"]) for message in self.body["messages"]]

    @property
    def role(self) -> Role:
        """Whose instructions stand in the request; the selector has none."""
        said = "\n".join(self.messages)
        return next((role for role in MODEL_ROLES if instructions(role) in said), "selector")


def said(
    content: str | None,
    finish: str = "stop",
    refusal: str | None = None,
    usage: tuple[int, int, int, int] | None = (100, 20, 64, 8),
    **more: Any,
) -> Reply:
    """A chat completion; usage is prompt, completion, cached and reasoning tokens."""
    message = {"role": "assistant", "content": content, "refusal": refusal, **more}
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-model",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    }
    if usage is not None:
        prompt, completion, cached, reasoning = usage
        body["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
    return Reply(json.dumps(body))


def failed(status: int, message: str = "no luck", code: str = "", **headers: str) -> Reply:
    """An error in OpenAI's form."""
    error = {"message": message, "type": "error", "code": code or None, "param": None}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(json.dumps({"error": error}), status, named)


def in_order(*replies: Reply) -> Callable[[Asked], Reply]:
    """These replies one after the other; the last for ever."""
    left = list(replies)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


def by_script(script: Script) -> Callable[[Asked], Reply]:
    """The answers that a scripted run would give, over the wire."""

    def answer(asked: Asked) -> Reply:
        client = ScriptedClient(script, asked.role)
        messages = [UserMessage(content=text, source="user") for text in asked.messages]
        return said(str(asyncio.run(client.create(messages)).content))

    return answer


class FakeOpenAI:
    """`answer` is called once for each request, in the server's threads."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.asked: list[Asked] = []
        self.answer = answer
        self.silent = True
        """Whether no reply was begun yet."""
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(answer: Callable[[Asked], Reply]) -> Iterator[FakeOpenAI]:
    server = FakeOpenAI(answer)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _handler(server: FakeOpenAI) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            server.asked.append(asked)
            reply = server.answer(asked)
            server.stopping.wait(reply.delay_s)
            server.silent = False
            data = reply.body.encode() if isinstance(reply.body, str) else reply.body
            blanks = int(reply.drip_s / 0.05)
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(blanks + len(data) + reply.lost))
                self.end_headers()
                for _ in range(blanks):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    server.stopping.wait(0.05)
                self.wfile.write(data)
                self.close_connection = self.close_connection or reply.lost > 0
            except OSError:
                pass  # the client has given up: what a test of timeouts wants

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
