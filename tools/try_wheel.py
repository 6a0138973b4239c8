"""Try the installed package as a user does; run by `make test-wheel` in a fresh environment, in a folder
without the sources."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

COMMAND = Path(sys.executable).with_name("featscope")


def call(*arguments: str) -> str:
    """Standard output of `featscope …`; an exit code other than 0 ends the trial."""
    start = time.monotonic()
    done = subprocess.run([str(COMMAND), *arguments], capture_output=True, text=True, check=False)
    print(f"{time.monotonic() - start:5.1f} s  featscope {' '.join(arguments)}", flush=True)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {done.stderr}")
    return done.stdout


def must(ok: bool, what: str) -> None:
    """End the trial unless ``ok``."""
    if not ok:
        sys.exit(f"not so: {what}")


def main() -> None:
    """Files inside, the verbs, the report, and a room of another package."""
    inside = files("featscope")
    must("site-packages" in str(inside), f"{inside} is the installed package")
    for name in ("py.typed", "report/templates/page.html.j2"):
        must(inside.joinpath(name).is_file(), f"{name} is in the wheel")
    must(call("--version").strip() == version("featscope"), "--version is the wheel's")
    listed = json.loads(call("list", "--json"))
    names = {plan["name"] for plan in listed["experiments"]}
    must(
        {"signal-lemmas", "own-maxima"} <= names,
        "the package's experiments and the other package's are listed",
    )
    must({"CG-LA.1", "OWN-max"} <= {claim["id"] for claim in listed["claims"]}, "and their claims")
    must(
        "A.1" in json.loads(call("run", "signal-lemmas", "--profile", "quick", "--json")),
        "a run prints its summary",
    )
    lines = json.loads(call("check", "CG-LA.1", "OWN-max", "--profile", "quick", "--json"))
    must({line["verdict"] for line in lines} == {"HOLDS"}, "both claims are judged")
    call("report", "runs", "--out", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    must("signal-lemmas" in page and "own-maxima" in page, "the page shows both runs")
    print("the wheel works")


main()
