"""`featscope verify`: honest certificates pass, tampered ones are refused, and the checking code knows nothing of
the search."""

import ast
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file, save_file

import featscope
from featscope.certificates.certificate import Certificate, Recheck, load_certificate, save
from featscope.certificates.cgro import ball_failures
from featscope.certificates.layers import Plain
from featscope.certificates.stored import READERS, certificates
from featscope.certificates.verify import CHECKS, found, verified
from featscope.cli.main import invoke
from featscope.core.errors import BadInput

ROOT = Path(featscope.__file__).parent
EPS = 0.5
Arrays = dict[str, np.ndarray]


def patch() -> Certificate:
    """Two points on two axes with Δ = (∓ε, ±ε), which makes both wrong."""
    arrays = {
        "w": np.eye(2)[:, None, :],
        "x": np.array([[[1.0, 0.1]], [[0.1, 1.0]]]),
        "y": np.array([0, 1]),
        "delta": np.array([[[-EPS, EPS]], [[EPS, -EPS]]]),
    }
    return Certificate(
        "patch-perturbations", "radii", arrays, {"eps": EPS, "q": 2, "rho": 1.0}, {"error": 1.0}
    )


def matching() -> Certificate:
    x = np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    arrays = {"x": x, "y": np.array([0, 1, 0, 1, 0]), "left": np.array([0, 2]), "right": np.array([1, 3])}
    return Certificate("matching", "matching", arrays, {"eps": EPS}, {"bound": 0.8})


def radii() -> Certificate:
    """f = ReLU(x₁) + ReLU(x₂) at (2, −3) has radius 2, proved by u = (1, 0)."""
    certificate = np.zeros((1, 4, 2))
    certificate[0, 0] = (1.0, 0.0)
    arrays = {
        "w": np.eye(2),
        "b": np.zeros(2),
        "a": np.ones(2),
        "x": np.array([[2.0, -3.0]]),
        "y": np.array([1.0]),
        "delta": np.array([[-2.0, 0.0]]),
        "certificate": certificate,
    }
    return Certificate("relu-radii", "radii[seed=0]", arrays, {}, {"radii": [2.0]})


def ball() -> Certificate:
    x = np.array([[[0.9, 0.0], [0.0, 0.5]], [[-0.9, 0.0], [0.0, 0.5]]])
    delta = np.array([[[-0.6, 0.0], [-0.8, 0.0]], [[0.6, 0.0], [0.8, 0.0]]])
    arrays = {"w": np.array([[1.0, 0.0]]), "x": x, "y": np.array([1.0, -1.0]), "delta": delta}
    return Certificate("cubic-ball", "robustness[seed=0]", arrays, {"radius": 1.0}, {"error": 1.0})


def memory() -> Certificate:
    arrays = {"x": np.array([[0.0, 0.5], [0.390625, 0.5], [1.0, 1.0]]), "y": np.array([1.0, -1.0, -1.0])}
    return Certificate("memory", "memory[D=2]", arrays, {"delta": 0.15625, "separation": 0.390625 + 1 / 128})


def pair() -> Certificate:
    left, right = np.array([[0, 10]], dtype=np.uint8), np.array([[3, 61]], dtype=np.uint8)
    arrays = {"left": left, "right": right, "labels": np.array([3, 5])}
    return Certificate("pair", "closest[pair=train]", arrays, {}, {"separation": 51 / 255})


HONEST = {"patch": patch, "matching": matching, "radii": radii, "ball": ball, "memory": memory, "pair": pair}


#: F(x) = x on two entries, as a probe writes a linear layer
IDENTITY = Plain([{"kind": "linear", "reads": [0], "options": {}}], {"0.weight": np.eye(2)})


def fooled() -> Certificate:
    """F(x) = x has the margin 0.8 at both points, so that ∓0.41 on the two entries turns both."""
    arrays = {
        "x": np.array([[0.9, 0.1], [0.1, 0.9]]),
        "y": np.array([0, 1]),
        "delta": np.array([[-0.41, 0.41], [0.41, -0.41]]),
        "size": np.array([0.41, 0.41]),
    }
    constants = {"norm": "Linf", "bounds": [0.0, 1.0], "outputs": IDENTITY.outputs}
    return Certificate("probe-perturbations", "robustness", arrays, constants)


def proved() -> Certificate:
    """The ℓ2 radius of margin 0.8 is 0.8/√2 = 0.5657 at both points."""
    arrays = {"x": fooled().arrays["x"], "y": np.array([0, 1]), "radius": np.array([0.565, 0.565])}
    constants = {"norm": "L2", "bounds": None, "net": IDENTITY}
    return Certificate("probe-radii", "certified", arrays, constants, {"proved": 2})


#: certificates whose network comes with the probe's folder: they are no files of their own
PROBED = {"fooled": fooled, "proved": proved}


def changed(made: Certificate, **changes: Any) -> Certificate:
    """The certificate with arrays, constants or statements replaced."""
    arrays = {k: changes.pop(k) if k in changes else v for k, v in made.arrays.items()}
    constants = {k: changes.pop(k) if k in changes else v for k, v in made.constants.items()}
    return Certificate(made.kind, made.place, arrays, constants, {**made.stated, **changes})


@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST)
def test_honest_certificates_pass_also_as_a_file_of_their_own(
    make: Callable[[], Certificate], tmp_path: Path
) -> None:
    assert verified(make()).refused is None
    save(make(), tmp_path / "c.safetensors")
    again = load_certificate(tmp_path / "c.safetensors")
    assert verified(again) == verified(make())
    assert (again.kind, again.place, again.stated) == (make().kind, make().place, make().stated)
    [(place, read)] = found(tmp_path / "c.safetensors")
    assert place == tmp_path / "c.safetensors"
    assert sorted(read.arrays) == sorted(make().arrays)


@pytest.mark.parametrize(
    ("make", "proves"),
    [
        (fooled, "2 perturbations of Linf norm 0.41 to 0.41 fool the network"),
        (proved, "2 of 2 radii (L2) proved, the largest 0.565"),
    ],
)
def test_honest_certificates_of_a_probe_pass(make: Callable[[], Certificate], proves: str) -> None:
    assert verified(make()) == Recheck(proves, None)


def test_every_kind_is_checked() -> None:
    assert {make().kind for make in (HONEST | PROBED).values()} == set(CHECKS)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        # a perturbation that is too large, one that fools nobody, a label turned, NaN, a part that is missing
        (changed(patch(), delta=patch().arrays["delta"] * 1.01), "leaves the ball of 0.5"),
        (changed(patch(), delta=patch().arrays["delta"] * 0.1), "proves 0 of 2 lost, its run states 2"),
        (changed(patch(), delta=patch().arrays["delta"] * [[[1.0]], [[0.1]]]), "proves 1 of 2 lost"),
        (changed(patch(), eps=0.4), "leaves the ball"),
        (changed(patch(), w=np.full((2, 1, 2), np.nan)), "made of numbers"),
        (changed(patch(), y=np.array([0, 5])), "classes"),
        (changed(patch(), q=None), "constant of the certificate is missing"),
        (Certificate("patch-perturbations", "p", {"w": np.eye(2)}, {"eps": 1.0}), "is missing"),
        (changed(matching(), left=np.array([0, 0])), "uses a point twice"),
        (changed(matching(), eps=0.4), "too far apart"),
        (changed(matching(), left=np.array([0]), right=np.array([1])), "proves 0.9, its run states 0.8"),
        (changed(matching(), bound=0.79), "its run states 0.79"),
        (changed(radii(), delta=np.array([[-1.9, 0.0]])), "1 radii are not settled"),
        (changed(radii(), certificate=np.zeros((1, 4, 2))), "not settled"),
        (changed(radii(), radii=[2.1]), "a stated radius is not the certified one"),
        (changed(radii(), radii=[1.9]), "a stated radius is not the certified one"),
        (changed(radii(), radii=[2.0, 2.0]), "2 radii are stated"),
        (changed(ball(), radius=0.99), "leaves the ball of 0.99"),
        (changed(ball(), delta=ball().arrays["delta"] * 0.5), "proves 0 of 2 lost"),
        (changed(memory(), x=np.array([[0.0, 0.5], [0.38, 0.5], [1.0, 1.0]])), "too close"),
        (changed(memory(), delta=0.25), "not above 2δ"),
        (changed(memory(), separation=np.nan), "made of numbers"),
        (changed(pair(), labels=np.array([3, 3])), "different labels"),
        (changed(pair(), right=np.array([[3, 62]], dtype=np.uint8)), "its run states 0.2"),
        (changed(fooled(), delta=fooled().arrays["delta"] * 1.1), "larger than it is said to be"),
        (changed(fooled(), delta=fooled().arrays["delta"] * [[0.9], [1.0]]), "1 do not fool the network"),
        (changed(fooled(), y=np.array([0, 0])), "1 examples are wrong without a perturbation"),
        (changed(fooled(), y=np.array([0, 2])), "the network's classes"),
        (changed(fooled(), bounds=[0.0, 0.5]), "leaves the bounds"),
        (changed(fooled(), size=np.array([0.41])), "fit"),
        (changed(proved(), radius=np.array([0.565, 0.567])), "1 radii are not proved"),
        (changed(proved(), norm="Linf"), "2 radii are not proved"),
        (changed(proved(), y=np.array([1, 1])), "1 radii are not proved"),
        (changed(proved(), proved=3), "the probe states 3 radii"),
    ],
)
def test_tampered_certificates_are_refused(made: Certificate, why: str) -> None:
    refused = verified(made).refused
    assert refused is not None
    assert why in refused


def test_a_kind_that_is_none_and_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="kind of certificate"):
        verified(Certificate("proof", "p", {}, {}))
    save_file({"a": np.zeros(2)}, tmp_path / "bare.safetensors")
    with pytest.raises(BadInput, match="does not say what it certifies"):
        load_certificate(tmp_path / "bare.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(BadInput, match="not a file of arrays"):
        load_certificate(tmp_path / "text.safetensors")
    with pytest.raises(BadInput, match="no such file"):
        list(found(tmp_path / "nowhere"))


# --- a run folder on disk, through the command line


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `signal-stages` as it lies on the disk, made by hand."""
    folder = tmp_path_factory.mktemp("runs") / "signal-stages" / "abc"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps({"experiment": "signal-stages", "spec": {"seeds": [0]}}))
    attacked = {"part": "robustness", "seed": 0, "sample": "train", "reading": "ball"}
    rows = [
        {**attacked, "share": 0.5, "attacked": 1.0},
        {**attacked, "share": 1.0, "attacked": 0.0},
        {"part": "conditions", "name": "radius-same", "value": 1.0},
    ]
    pl.DataFrame(rows).write_parquet(folder / "rows.parquet")
    save_file(
        {f"robustness[seed=0]/{k}": v for k, v in ball().arrays.items()}, folder / "tensors.safetensors"
    )
    return folder


def tampered(folder: Path, to: Path, change: Callable[[Arrays], Arrays]) -> Path:
    shutil.copytree(folder, to)
    save_file(change(load_file(to / "tensors.safetensors")), to / "tensors.safetensors")
    return to


def test_a_run_its_folder_and_its_file_are_verified(
    run_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert certificates(run_folder)[0].stated == {"error": 1.0}
    for path in (run_folder, run_folder.parent.parent, run_folder / "tensors.safetensors"):
        assert invoke(["verify", str(path), "--json"]) == 0
        [told] = json.loads(capsys.readouterr().out)
        assert (told["kind"], told["part"], told["refused"]) == ("cubic-ball", "robustness[seed=0]", None)
        assert told["proves"] == "2 of 2 training points fail within ‖Δ‖₂ ≤ 1"
    assert invoke(["verify", str(run_folder), "--export", str(tmp_path / "out")]) == 0
    [single] = (tmp_path / "out").iterdir()
    assert invoke(["verify", str(single)]) == 0
    assert "2 of 2" in capsys.readouterr().out


def test_a_tampered_run_exits_with_two_and_says_which(
    run_folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    key = "robustness[seed=0]/delta"
    bad = tampered(run_folder, tmp_path / "bad", lambda arrays: arrays | {key: arrays[key] * 0.5})
    assert invoke(["verify", str(bad)]) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert "proves 0 of 2 lost, its run states 2" in told.err
    assert "refused" in told.out
    empty = tampered(run_folder, tmp_path / "empty", lambda arrays: {"other/x": np.zeros(1)})
    assert invoke(["verify", str(empty)]) == 2
    assert "no certificate there" in capsys.readouterr().err
    (bad / "spec.json").write_text("[]")
    assert invoke(["verify", str(bad)]) == 2
    assert "not what a run writes" in capsys.readouterr().err


# --- shares nothing with the search


def test_the_checking_code_imports_nothing_of_the_search() -> None:
    allowed = {"featscope.core.errors", "featscope.core.rules"}
    for path in (ROOT / "certificates").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            own = {
                n for n in names if n.startswith("featscope") and not n.startswith("featscope.certificates")
            }
            assert own <= allowed, path
            assert not {n for n in names if n.split(".")[0] in ("torch", "scipy")}, path


def test_verifying_loads_neither_torch_nor_the_search(run_folder: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom featscope.certificates.verify import found, verified\n"
        f"assert [verified(c).refused for _, c in found(Path({str(run_folder)!r}))] == [None]\n"
        "parts = ('attacks', 'nets', 'laws', 'dynamics', 'papers', 'experiments', 'claims')\n"
        "bad = [m for m in sys.modules if m == 'torch' or m.startswith(tuple(f'featscope.{p}' for p in parts))]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_experiments_that_leave_certificates_exist() -> None:
    from featscope.experiments.registry import experiments

    assert set(READERS) <= set(experiments())


# --- what each check stands on, one thing wrong at a time


@pytest.mark.parametrize(
    "wrong",
    [
        # all else is right: ε is large enough for every pair
        {"y": np.array([0, 0, 0, 1, 0])},
        {"left": np.array([0, 0]), "right": np.array([1, 3])},
        {"left": np.array([0, 2]), "right": np.array([1, 1])},
        {"left": np.array([0, -5]), "right": np.array([1, 3])},
    ],
)
def test_a_matching_needs_different_labels_and_every_point_once(wrong: Arrays) -> None:
    assert verified(changed(matching(), eps=9.0)).refused is None
    assert verified(changed(matching(), eps=9.0, **wrong)).refused is not None


def test_a_point_that_is_wrong_anyway_is_lost_but_not_fooled() -> None:
    # unmoved it stays wrong
    made = changed(patch(), y=np.array([1, 1]), delta=patch().arrays["delta"] * [[[0.0]], [[1.0]]])
    assert verified(made).proves == "1 of 2 points fooled within ‖Δ‖∞ ≤ 0.5, 1 wrong without"
    assert verified(made).refused is None
    arrays = ball().arrays
    assert ball_failures(*(arrays[name] for name in ("w", "x", "y", "delta")), 0.99)["failures"] == 0
    turned = changed(ball(), y=np.array([-1.0, -1.0]))
    assert verified(turned).proves == "1 of 2 training points fail within ‖Δ‖₂ ≤ 1"
    assert verified(turned).refused is None


def test_the_activation_is_linear_beyond_its_bend() -> None:
    """q = 2, ϱ = 1: σ̃(3) is 2.5 and two of σ̃(1.6) are 2.2, where max(z, 0) would say 3 and 3.2."""
    x = np.array([[[3.0, 1.6], [0.0, 1.6]]])
    arrays = {"w": np.eye(2)[:, None, :], "x": x, "y": np.array([0]), "delta": np.zeros_like(x)}
    made = Certificate("patch-perturbations", "radii", arrays, {"eps": EPS, "q": 2, "rho": 1.0})
    assert verified(made).proves.endswith("0 wrong without")


def test_memory_may_miss_an_eighth_of_its_room_and_no_more() -> None:
    room = 0.125
    for share, refused in ((1.0, False), (1.01, True)):
        x = np.array([[0.0], [0.5 - share * room / 8]])
        arrays = {"x": x, "y": np.array([1.0, -1.0])}
        made = Certificate("memory", "memory[D=1]", arrays, {"delta": 0.1875, "separation": 0.5})
        assert (verified(made).refused is not None) == refused
    touching = Certificate("memory", "m", arrays, {"delta": 0.25, "separation": 0.5})
    assert verified(touching).refused == "the separation is not above 2δ"


@pytest.mark.parametrize(("stated", "refused"), [(None, False), (math.inf, False), (5.0, True)])
def test_a_radius_that_is_infinite_is_stated_as_such(stated: float | None, refused: bool) -> None:
    """f = ReLU(1) is positive everywhere; JSON states its radius as null."""
    arrays = {
        "w": np.zeros((1, 2)),
        "b": np.ones(1),
        "a": np.ones(1),
        "x": np.array([[2.0, -3.0]]),
        "y": np.array([1.0]),
        "delta": np.array([[math.inf, math.inf]]),
        "certificate": np.ones((1, 2, 1)),
    }
    outcome = verified(Certificate("relu-radii", "radii[seed=0]", arrays, {}, {"radii": [stated]}))
    assert (outcome.refused == "a stated radius is not the certified one") is refused
    assert (outcome.refused is None) is not refused
