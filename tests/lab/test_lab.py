"""The lab without a browser: sliders, stories, the page as one file, runs for real, and who may ask the server."""

from __future__ import annotations

import http.client
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from featscope.cli import main as cli
from featscope.core.errors import BadInput
from featscope.lab import server
from featscope.lab.controls import CONTROLS, Choice, LabModel, Slider, defaults
from featscope.lab.page import lab_page
from featscope.lab.real import run_for_real
from featscope.lab.settings import checked
from featscope.lab.stories import STORIES

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("model", CONTROLS)
def test_defaults_are_on_their_sliders(model: LabModel) -> None:
    assert checked(model, defaults(model)) == defaults(model)
    keys = [control.key for control in CONTROLS[model]]
    assert len(keys) == len(set(keys))


def test_two_stories_a_model_each_with_a_question_and_valid_settings() -> None:
    assert [story.model for story in STORIES] == ["at", "at", "fa", "fa", "cgro", "cgro"]
    assert len({story.name for story in STORIES}) == 6
    for story in STORIES:
        assert checked(story.model, story.settings) == story.full_settings()
        assert story.question.count("?") >= 1
        assert 200 < len(" ".join(story.text)) < 700


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        ("at", {"epss": 1.0}, "unknown setting of at: epss; did you mean eps"),
        ("at", {"eps": 9}, "ε must be on its slider: ε=9; use 0.05 … 3"),
        ("at", {"eps": "1"}, "ε must be a number"),
        ("at", {"eps": float("nan")}, "ε must be finite"),
        ("at", {"k": 2.5}, "k must be a whole number"),
        ("at", {"clip": "tight"}, "unknown value of clip"),
        ("fa", {"k": 4}, "both labels need a cluster"),
        ("fa", {"k": 6, "groups": 7}, "at most as many label groups as clusters"),
        ("nothing", {}, "unknown model of the lab"),
        (None, {}, "must be given by name"),
    ],
)
def test_what_a_slider_cannot_say_is_refused(model: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        run_for_real(model, given)


def test_the_exported_page_is_one_file_that_asks_for_nothing(tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "lab.html"
    assert cli.invoke(["lab", "--export", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert "connect-src 'none'" in text
    assert not re.findall(r"""(?:src|href)=["'](?!#|https://arxiv)""", text)
    assert "@import" not in text
    assert '"live":false' in text
    assert "connect-src 'self'" in lab_page(live=True)
    assert cli.invoke(["lab", "--export", str(tmp_path)]) == 2
    assert "ends in .html" in capsys.readouterr().err


def test_without_the_extra_there_is_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert cli.invoke(["lab", "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "starlette is not installed; pip install 'featscope[lab]'" in said


def test_a_port_that_is_taken_is_told() -> None:
    with server.bound_socket(0) as taken:
        taken.listen()
        assert taken.getsockname()[0] == "127.0.0.1"
        with pytest.raises(BadInput, match="--port 0 for a free one"):
            server.bound_socket(taken.getsockname()[1])
    with pytest.raises(BadInput, match="this port cannot be used"):
        server.bound_socket(99999)


@pytest.mark.parametrize(
    ("method", "headers", "answered"),
    [
        ("GET", {"host": "127.0.0.1:80"}, True),
        ("GET", {"host": "localhost:80"}, True),
        ("GET", {"host": "127.0.0.1:81"}, False),
        ("GET", {"host": "evil.example:80"}, False),
        ("GET", {}, False),
        ("GET", {"host": "127.0.0.1:80", "origin": "http://evil.example"}, False),
        ("POST", {"host": "127.0.0.1:80"}, False),
        ("POST", {"host": "127.0.0.1:80", "origin": "null"}, False),
        ("POST", {"host": "127.0.0.1:80", "origin": "https://127.0.0.1:80"}, False),
        ("POST", {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80"}, True),
    ],
)
def test_who_is_answered(method: str, headers: dict[str, str], answered: bool) -> None:
    assert (server.refusal(method, headers, 80) is None) is answered


# --- runs for real

SHORT: dict[LabModel, dict[str, Any]] = {
    "at": {"d": 100, "steps": 50, "rate": 0.5, "weak": 5},
    "fa": {"n": 60, "d": 500, "k": 4, "plus": 2, "steps": 20},
    "cgro": {"n": 4, "d": 128, "steps": 150, "gap": 0.02},
}
MORE = [
    ("at", {"training": "adversarial"}),
    ("at", {"training": "adversarial", "clip": "as-printed"}),
    ("at", {"training": "adversarial", "sigma_n": 0.05, "batch": 30}),
    ("fa", {"groups": 4, "d": 10**9}),
    ("fa", {"groups": 3, "cosine": 0.3}),
]


@pytest.mark.parametrize(("model", "more"), [*((model, {}) for model in SHORT), *MORE])
def test_a_run_for_real_streams_its_start_rows_and_radii(model: LabModel, more: dict[str, Any]) -> None:
    events = list(run_for_real(model, SHORT[model] | more))
    kinds = [event["kind"] for event in events]
    assert kinds == ["start", *["row"] * (len(events) - 3), "radii", "done"]
    assert set(events[0]["settings"]) == set(defaults(model))
    json.dumps(events, allow_nan=False)
    steps = [event["step"] for event in events[1:-2]]
    assert steps == sorted(set(steps))
    assert steps[0] == 0
    assert len(events[-2]["table"]) > 1


def test_the_start_of_a_patch_run_is_that_of_its_first_row() -> None:
    events = list(run_for_real("at", SHORT["at"]))
    u, first = events[0]["start"]["u"], events[1]["row"]
    k, width = 2, 10
    assert first["A"] == pytest.approx(
        [max(u[(i * width + r) * k + i] for r in range(width)) for i in range(k)]
    )
    assert first["time"] == 0
    assert events[-3]["row"]["time"] == pytest.approx(25)


def test_only_one_run_at_a_time() -> None:
    work = server.Work()
    first = work.lines("fa", SHORT["fa"])
    assert json.loads(next(first))["kind"] == "start"
    assert [json.loads(line)["kind"] for line in work.lines("fa", SHORT["fa"])] == ["error"]
    first.close()
    assert json.loads(next(work.lines("fa", SHORT["fa"])))["kind"] == "start"


def test_a_refused_setting_is_an_event_and_frees_the_place() -> None:
    work = server.Work()
    for _ in range(2):
        assert [json.loads(line) for line in work.lines("fa", {"k": 99})] == [
            {"kind": "error", "text": "k must be on its slider: k=99; use 2 … 12"}
        ]


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    pytest.importorskip("starlette", reason="the server's tests need the extra: pip install -e '.[lab]'")
    uvicorn = pytest.importorskip(
        "uvicorn", reason="the server's tests need the extra: pip install -e '.[lab]'"
    )
    sock = server.bound_socket(0)
    port = sock.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(server.application(port), log_level="error"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not running.started:
        thread.join(0.05)
    yield "127.0.0.1", port
    running.should_exit = True
    thread.join()
    sock.close()


def ask(
    address: tuple[str, int], method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, str]:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(*address)
    connection.request(method, path, None if body is None else json.dumps(body), told)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_server_gives_its_page_to_its_own_host_only(address: tuple[str, int]) -> None:
    status, text = ask(address, "GET", "/")
    assert (status, "featscope lab" in text) == (200, True)
    assert ask(address, "GET", "/", Host="evil.example")[0] == 403
    assert ask(address, "GET", "/etc")[0] == 404


def test_the_server_listens_on_this_machine_alone(address: tuple[str, int]) -> None:
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        with pytest.raises(OSError), socket.create_connection((other, address[1]), timeout=2):  # noqa: PT011
            pass


def test_a_run_is_started_by_the_own_page_only(address: tuple[str, int]) -> None:
    own, kind = f"http://127.0.0.1:{address[1]}", "application/json"
    body = {"model": "fa", "settings": SHORT["fa"]}
    status, text = ask(address, "POST", "/real", body, Origin=own, Content_Type=kind)
    assert status == 200
    assert [json.loads(line)["kind"] for line in text.splitlines()][-2:] == ["radii", "done"]
    assert ask(address, "POST", "/real", body, Origin="http://evil.example", Content_Type=kind)[0] == 403
    assert ask(address, "POST", "/real", body, Content_Type=kind)[0] == 403
    assert ask(address, "POST", "/real", body, Origin=own, Content_Type="text/plain")[0] == 400
    assert ask(address, "POST", "/real", [1], Origin=own, Content_Type=kind)[0] == 400
    assert ask(address, "POST", "/real", {"settings": "x" * 30_000}, Origin=own, Content_Type=kind)[0] == 400
    assert ask(address, "GET", "/real")[0] == 405


def test_every_slider_says_what_it_means() -> None:
    for controls in CONTROLS.values():
        for control in controls:
            assert len(control.meaning) > 3 or control.kind == "choice"
            if isinstance(control, Slider):
                assert control.low <= control.default <= control.high
                assert not control.scale.startswith("log") or control.low > 0
            assert not isinstance(control, Choice) or control.default in control.options
