"""The lab's server: the page, and runs for real, on 127.0.0.1 and for this page alone.

A browser tells with each request which host it believes to talk to and which page asked. A request for
another host (a name that was made to point here) or from another origin is refused, so that no web page can
start work here.
"""

from __future__ import annotations

import importlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from featscope.core.errors import BadInput, FeatscopeError
from featscope.lab.page import lab_page
from featscope.lab.real import Event, run_for_real

HOST = "127.0.0.1"
#: a body is a model's name and some numbers
LARGEST_BODY = 20_000


def require_server() -> None:
    """Refuse to go on without Starlette and uvicorn."""
    for name in ("starlette", "uvicorn"):
        try:
            importlib.import_module(name)
        except ImportError:
            raise BadInput(
                "the lab's server needs an extra",
                f"{name} is not installed",
                "pip install 'featscope[lab]', or write the page without a server: featscope lab --export "
                "lab.html",
            ) from None


def bound_socket(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 takes a free one."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            "this port cannot be used", f"{port}: {reason}", "give another, or --port 0 for a free one"
        ) from None
    return made


def refusal(method: str, headers: Mapping[str, str], port: int) -> str | None:
    """Why a request is not answered: another host, another origin, or a post that names none."""
    hosts = {f"{HOST}:{port}", f"localhost:{port}"}
    if headers.get("host") not in hosts:
        return f"this server answers {HOST}:{port} only"
    origin = headers.get("origin")
    if origin is None and method == "POST":
        return "a run is started from the lab's own page"
    if origin is not None and origin not in {f"http://{host}" for host in hosts}:
        return "requests of other pages are refused"
    return None


class Work:
    """At most one run at a time: a second one waits for nobody and is refused."""

    def __init__(self) -> None:
        self._busy = threading.Lock()

    def lines(self, model: Any, settings: Mapping[str, Any]) -> Iterator[str]:
        """The events of a run as lines of JSON; what is wrong with the request is an event too."""
        if not self._busy.acquire(blocking=False):
            yield _line({"kind": "error", "text": "another run is under way; stop it first"})
            return
        try:
            yield from map(_line, run_for_real(model, settings))
        except FeatscopeError as error:
            yield _line({"kind": "error", "text": str(error)})
        finally:
            self._busy.release()


def _line(event: Event) -> str:
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def application(port: int) -> Any:
    """The Starlette application for a server on that port."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Route

    page, work = lab_page(live=True), Work()

    async def show(request: Request) -> Response:
        refused = refusal(request.method, request.headers, port)
        return PlainTextResponse(refused, 403) if refused else HTMLResponse(page, headers=_SAFE)

    async def real(request: Request) -> Response:
        refused = refusal(request.method, request.headers, port)
        if refused:
            return PlainTextResponse(refused, 403)
        asked = _asked(await request.body(), request.headers.get("content-type", ""))
        if isinstance(asked, str):
            return PlainTextResponse(asked, 400)
        lines = work.lines(asked.get("model"), asked["settings"])
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=_SAFE)

    return Starlette(routes=[Route("/", show), Route("/real", real, methods=["POST"])])


_SAFE = {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store"}


def _asked(body: bytes, kind: str) -> dict[str, Any] | str:
    """The request, or what is wrong with it."""
    if kind.split(";")[0].strip() != "application/json" or len(body) > LARGEST_BODY:
        return "a short JSON document is needed"
    try:
        asked = json.loads(body)
    except ValueError:
        return "this is no JSON"
    fine = isinstance(asked, dict) and isinstance(asked.get("settings"), dict)
    return asked if fine else "a model and its settings are needed"


def serve(sock: socket.socket) -> None:
    """Answer until interrupted."""
    import uvicorn

    port = int(sock.getsockname()[1])
    uvicorn.Server(uvicorn.Config(application(port), log_level="warning", server_header=False)).run(
        sockets=[sock]
    )
