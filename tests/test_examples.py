"""The examples run: a law of one's own, and a room of another package that every verb sees."""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import polars as pl
import pytest
import torch

import featscope as fs
from featscope.experiments import registry

EXAMPLES = next(path / "examples" for path in Path(__file__).parents if (path / "pyproject.toml").exists())
ROOM = EXAMPLES / "own_claim"


def test_a_law_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On dimmed points, too, standard training takes the non-robust features and adversarial training the
    robust ones."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_law

    picture = tmp_path / "picture.png"
    last = {name: rows.tail(1).to_dicts()[0] for name, rows in own_law.main(str(picture)).items()}
    assert last["standard"]["step"] == last["adversarial"]["step"] == 1000
    assert last["standard"]["v"] > 10 * last["standard"]["u"]
    assert last["adversarial"]["u"] > 10 * last["adversarial"]["v"]
    assert picture.stat().st_size > 10_000


def test_its_points_are_dimmed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import own_law

    batch, undimmed = (law(k=2, d=40).sample(500, seed=0) for law in (own_law.Fading, fs.PatchLaw))
    share = (batch.x / undimmed.x).flatten(1)
    torch.testing.assert_close(share, share[:, :1].expand_as(share))
    assert 0.5 < float(share.min()) < 0.51
    assert 0.99 < float(share.max()) < 1
    torch.testing.assert_close(batch.amplitude, share[:, :1] * undimmed.amplitude)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example is installed, without a network: its module, and its metadata as
    pip would write it."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((ROOM / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (points,) = project["entry-points"].items()
    folder = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"[{points[0]}]", *(f"{name} = {value}" for name, value in points[1].items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (site / "own_claim.py").symlink_to(ROOM / "own_claim.py")
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def call(environment: dict[str, str], folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "featscope", *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_a_room_of_another_package_is_seen_by_every_verb(installed: dict[str, str], tmp_path: Path) -> None:
    listed = json.loads(call(installed, tmp_path, "list", "--json").stdout)
    assert {"own-maxima", "patch-fig3"} <= {plan["name"] for plan in listed["experiments"]}
    assert {"OWN-max", "AT-P3.1"} <= {claim["id"] for claim in listed["claims"]}
    done = call(
        installed, tmp_path, "run", "own-maxima", "--profile", "quick", "--set", "counts=[5]", "--json"
    )
    assert set(json.loads(done.stdout)) == {"largest"}
    done = call(installed, tmp_path, "check", "--paper", "own", "--profile", "quick", "--json")
    (line,) = json.loads(done.stdout)
    assert (line["id"], line["reading"], line["verdict"], line["bound"]) == ("OWN-max", "mean", "HOLDS", 1.0)
    assert list(line["evidence"]["parts"]) == ["m=10", "m=100", "m=1000"]
    assert 0.5 < line["value"] < 1
    assert call(installed, tmp_path, "report", "runs", "--out", "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert "own-maxima" in page
    assert "counts = [5]" in page


def test_the_claim_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge says FAILS where one mean is above its bound, with the m that decides."""
    monkeypatch.syspath_prepend(str(ROOM))
    import own_claim

    class Made:
        settings = own_claim.Maxima(seeds=(0, 1, 2), counts=(10, 100))

        def __init__(self, largest: float) -> None:
            rows = [(s, m, top + 0.01 * s) for s in range(3) for m, top in ((10, 1.5), (100, largest))]
            self.rows = pl.DataFrame(rows, schema=["seed", "m", "largest"], orient="row")

        def part(self, name: str) -> pl.DataFrame:
            assert name == "drawn"
            return self.rows

    assert own_claim.judge({"run": Made(2.5)}).verdict == "HOLDS"
    found = own_claim.judge({"run": Made(3.2)})
    assert found.verdict == "FAILS"
    assert found.evidence["decided_by"] == "m=100"


def test_without_it_nothing_is_seen() -> None:
    with pytest.raises(fs.BadInput, match="unknown experiment: own-maxima"):
        fs.run("own-maxima")


@pytest.mark.parametrize(
    ("name", "told"),
    [("at", "two rooms for one paper: at"), ("twin", "two experiments of one name: patch-fig3")],
)
def test_a_room_that_takes_a_name_is_refused(name: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rival = EntryPoint(name, "featscope.papers.at", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints([rival]))
    monkeypatch.setattr(registry, "rooms", registry.rooms.__wrapped__)
    with pytest.raises(fs.BadInput, match=told):
        registry.experiments.__wrapped__()
