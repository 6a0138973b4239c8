"""One sweep of 20 points on every engine gives one table, to the last bit, also where a worker is killed.

A target of its own (`make test-engines`): Ray and submitit are extras, and SLURM is a service.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from featscope.sweeps import sweep as sweeping
from featscope.sweeps.asked import of
from featscope.sweeps.engines import Engine, Local, Ray, Slurm
from featscope.sweeps.sweep import run_sweep

ASKED = of("patch-race", {"law.alpha": "1.2:5:20"}, settings={"relative": 0.2, "net.width": 3}, seeds=2)


@pytest.fixture(autouse=True)
def _small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "TOGETHER", 2)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "TOGETHER", 2)
        return table(tmp_path_factory.mktemp("one"), Local(1))


def table(out: Path, engine: Engine) -> bytes:
    done = run_sweep(ASKED, out, engine)
    assert (done.rows["point"].n_unique(), done.failed.height) == (20, 0)
    return done.path.read_bytes()


def killed_in_the_middle(out: Path, find: str) -> threading.Thread:
    """Kill one worker, a child of this process whose command says ``find``, when some runs are there."""

    def watch() -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if len(list(out.glob("patch-race/*/manifest.json"))) >= 3:
                for pid in descendants(os.getpid()):
                    if find in command(pid):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)
                        return
            time.sleep(0.005)

    thread = threading.Thread(target=watch, daemon=True)
    thread.killed = killed = []  # type: ignore[attr-defined]
    thread.start()
    return thread


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid: int) -> list[int]:
    found = []
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for inner in map(int, child.read_text().split()):
            found += [inner, *descendants(inner)]
    return found


def test_processes_of_which_one_is_killed(tmp_path: Path, expected: bytes) -> None:
    killer = killed_in_the_middle(tmp_path, "spawn_main")
    assert table(tmp_path, Local(2)) == expected
    assert killer.killed  # type: ignore[attr-defined]


def test_ray_of_which_a_worker_is_killed(tmp_path: Path, expected: bytes) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'featscope[ray]'")
    killer = killed_in_the_middle(tmp_path, "ray::work")
    assert table(tmp_path, Ray(workers=2)) == expected
    assert killer.killed  # type: ignore[attr-defined]


def test_local_jobs_of_submitit(tmp_path: Path, expected: bytes) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed: pip install 'featscope[slurm]'")
    assert table(tmp_path, Slurm(tmp_path, cluster="local")) == expected


def slurm_answers() -> bool:
    if shutil.which("sinfo") is None:
        return False
    said = subprocess.run(
        ["sinfo", "-h", "-o", "%t"], capture_output=True, text=True, timeout=60, check=False
    )
    return any(state in said.stdout for state in ("idle", "mix", "alloc"))


def test_a_slurm_cluster(tmp_path: Path, expected: bytes) -> None:
    pytest.importorskip("submitit", reason="submitit is not installed: pip install 'featscope[slurm]'")
    if not slurm_answers():
        pytest.skip("no SLURM answers here: apt install slurm-wlm, then tools/one_node_slurm.sh")
    assert (
        table(tmp_path, Slurm(tmp_path, cluster="slurm", options={"slurm_array_parallelism": 2})) == expected
    )
