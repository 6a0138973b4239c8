"""A probe's folder: made by the command line, verified by code of its own, compared with another, gone on with
after a kill."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import foreign
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from featscope.cli.main import invoke
from featscope.core.errors import BadInput
from featscope.probe import robustness
from featscope.probe.compare import compared, paired

NETWORK = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


def build():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, 2), nn.ReLU(), Block(), nn.MaxPool2d(2, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(6, 4)
    )


def load():
    return build(), {"mean": [0.5] * 3, "std": [0.25] * 3, "names": ["a", "b", "c", "d"]}


def linear():
    net = nn.Linear(8, 3)
    with torch.no_grad():
        net.weight.copy_(torch.eye(3, 8))
        net.bias.zero_()
    return net


def normed():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    order = [2, 1, 0, 3]  # so that most of its guesses are right
    with torch.no_grad():
        net[-1].weight.copy_(net[-1].weight[order].clone())
        net[-1].bias.copy_(net[-1].bias[order].clone())
    return net


def gelu():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.GELU(), nn.Linear(16, 4))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with networks, one with trained weights, and data."""
    place = tmp_path_factory.mktemp("probe")
    (place / "net.py").write_text(NETWORK)
    names: dict[str, object] = {}
    exec(NETWORK, names)
    net = names["build"]()  # type: ignore[operator]
    x, y = foreign.images(256, 1)
    optimiser = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net((x - 0.5) / 0.25), y).backward()
        optimiser.step()
    save_file(net.state_dict(), place / "weights.safetensors")
    torch.save(net.state_dict(), place / "weights.pth")
    test_x, test_y = foreign.images(30, 5)
    np.savez(place / "data.npz", x=test_x.numpy(), y=test_y.numpy(), train_x=x.numpy(), train_y=y.numpy())
    return place


def command(home: Path, out: Path, weights: str = "weights.safetensors", *more: str) -> list[str]:
    return [
        "probe", f"{home / 'net.py'}:load", "--weights", str(home / weights), "--data", str(home / "data.npz"),
        "--eps", "8/255", "--budget", "2s", "--out", str(out), *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def made(home: Path) -> Path:
    out = home / "made"
    assert invoke(command(home, out)) == 0
    return out


def test_the_document_says_what_was_probed(made: Path) -> None:
    document = json.loads((made / "probe.json").read_text())
    assert document["schema"] == 1
    assert document["subject"]["classes"] == ["a", "b", "c", "d"]
    assert document["subject"]["eps"] == pytest.approx(8 / 255)
    assert document["subject"]["bounds"] == [0.0, 1.0]
    found = document["robustness"]
    curve = [point["attacked"]["value"] for point in found["curve"]]
    assert curve == sorted(curve, reverse=True)
    assert found["curve"][0]["radius"] == 0
    for point in found["curve"]:
        assert point["certified"]["value"] <= point["certified"]["attacked"]
        assert point["attacked"]["low"] <= point["attacked"]["value"] <= point["attacked"]["high"]
    assert found["certificate"]["proved"] > 0
    assert sum(entry["examples"] for entry in found["per_class"]) == found["effort"]["examples"]


def test_what_was_saved_is_verified(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["verify", str(made), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    kinds = {line["kind"]: line["proves"] for line in lines}
    assert set(kinds) == {"probe-perturbations", "probe-radii"}
    assert "fool the network" in kinds["probe-perturbations"]


def damaged(made: Path, tmp_path: Path, file: str, change: dict[str, object]) -> Path:
    copied = tmp_path / "copy"
    shutil.copytree(made, copied)
    path = copied / file
    from safetensors import safe_open

    with safe_open(str(path), "pt") as opened:
        header = opened.metadata()
    tensors = load_file(str(path))
    for name, value in change.items():
        tensors[name] = value(tensors[name])  # type: ignore[operator]
    save_file({name: value.contiguous() for name, value in tensors.items()}, path, header)
    return copied


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("perturbations/robustness.safetensors", {"delta": lambda t: 0 * t}),
        ("perturbations/robustness.safetensors", {"delta": lambda t: 1.5 * t}),
        ("perturbations/robustness.safetensors", {"y": lambda t: (t + 1) % 4}),
        ("parts/certified.safetensors", {"radius": lambda t: 40 * t}),
        ("parts/certified.safetensors", {"y": lambda t: (t + 1) % 4}),
        ("parts/certified.safetensors", {name: lambda t: t[1:] for name in ("x", "y", "radius", "index")}),
    ],
)  # fmt: skip
def test_what_was_changed_is_refused(
    made: Path, tmp_path: Path, file: str, change: dict[str, object]
) -> None:
    assert invoke(["verify", str(damaged(made, tmp_path, file, change))]) == 2


def in_short(home: Path, out: Path, name: str) -> list[str]:
    given = ["--data", str(home / "data.npz"), "--eps", "0.02", "--budget", "1s", "--out", str(out)]
    return ["probe", f"{home / 'net.py'}:{name}", *given]


def test_a_network_that_is_no_list_of_layers_is_given_to_verify(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "normed"
    assert invoke(in_short(home, out, "normed")) == 0
    document = json.loads((out / "probe.json").read_text())
    assert document["robustness"]["certificate"]["method"] == "none"
    assert "layernorm" in document["robustness"]["certificate"]["reason"]
    assert invoke(["verify", str(out)]) == 2
    assert invoke(["verify", str(out), "--network", f"{home / 'net.py'}:normed"]) == 0


def test_a_network_without_linear_bounds_has_a_lipschitz_constant_that_verifies(
    home: Path, tmp_path: Path
) -> None:
    out = tmp_path / "gelu"
    assert invoke(in_short(home, out, "gelu")) == 0
    certificate = json.loads((out / "probe.json").read_text())["robustness"]["certificate"]
    assert certificate["method"] == "Lipschitz constant"
    assert certificate["proved"] > 0
    assert invoke(["verify", str(out)]) == 0
    larger = {"radius": lambda t: 1.01 * t}
    assert invoke(["verify", str(damaged(out, tmp_path, "parts/certified.safetensors", larger))]) == 2


def test_weights_of_both_forms_are_the_same_network(home: Path, made: Path) -> None:
    """The probe of the same weights from a .pth file is found finished."""
    before = (made / "probe.json").stat().st_mtime_ns
    assert invoke(command(home, made, "weights.pth")) == 0
    assert (made / "probe.json").stat().st_mtime_ns == before


def test_another_probe_does_not_write_into_the_folder(home: Path, made: Path) -> None:
    assert invoke(command(home, made, "weights.safetensors", "--seed", "3")) == 2
    assert invoke(command(home, made, "weights.safetensors", "--norm", "L2")) == 2


#: kills in the middle of a write, once in each of the five parts, and the same command again: prints what each
#: attempt came to
KILLED = """
import os, shutil, signal, sys
from pathlib import Path

import torch

from featscope.cli.main import invoke
from featscope.core.files import read_json
from featscope.probe import keep

torch.set_num_threads(1)
home, write = Path(sys.argv[1]), keep.write_bytes
decided = ("cost", "-effort", "-certify", "-examples", "-epochs")


def command(out):
    where = ["--data", str(home / "data.npz"), "--eps", "0.02", "--budget", "1s", "--groups", "parity"]
    weights = ["--weights", str(home / "weights.safetensors")]
    return ["probe", str(home / "net.py") + ":load", *weights, *where, "--out", str(out)]


def alone(out, last=None):
    def counted(path, data):
        if last is not None and path.name.startswith(last):
            write(path, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, data)

    child = os.fork()
    if child == 0:
        keep.write_bytes = counted
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.dup2(2, 1)
        os._exit(invoke(command(out)))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


whole = home / "whole"
assert alone(whole) == 0
parts = sorted((whole / "parts").iterdir())
clocks = [path for path in parts if path.stem.endswith(decided)]
expected = (whole / "probe.json").read_bytes()
document = read_json(whole / "probe.json")
mechanisms = ("data_limits", "feature_use", "averaging", "memorising")
print(*("skipped" in document[part] for part in mechanisms), flush=True)
moments = ("robustness-search", "data_limits-pairs", "feature_use-rates", "averaging-nearest", "memorising-test")
for moment in moments:
    out = home / f"killed-{moment}"
    (out / "parts").mkdir(parents=True)
    for path in clocks:
        shutil.copy(path, out / "parts")
    code = alone(out, moment)
    unfinished = not (out / "probe.json").exists()
    again = alone(out)
    print(code, unfinished, again, (out / "probe.json").read_bytes() == expected, flush=True)
"""


def test_a_probe_killed_in_each_part_goes_on_to_the_same_document(home: Path) -> None:
    """Robustness and the four mechanisms, none skipped; what the clock decided is taken over."""
    called = [sys.executable, "-c", KILLED, str(home)]
    done = subprocess.run(called, capture_output=True, text=True, check=False)
    expected = ["False False False False", *["-9 True 0 True"] * 5]
    assert done.stdout.splitlines() == expected, done.stdout + done.stderr[-2000:]


def test_a_finished_part_is_not_made_again(
    home: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "again"
    shutil.copytree(made, out)
    (out / "probe.json").unlink()

    def never(*_: object, **__: object) -> None:
        raise AssertionError("searched again")

    for name in ("settle", "indicators", "bounded_radii"):
        monkeypatch.setattr(robustness, name, never)
    assert invoke(command(home, out)) == 0
    assert (out / "probe.json").read_text() == (made / "probe.json").read_text()


def test_two_probes_side_by_side(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(made, made)
    assert all(line.difference in (0.0, None) for line in found.lines)
    assert all(line.apart == "cannot tell" for line in found.lines)
    assert invoke(["probe", "--compare", str(made), str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["quantity"] == "clean accuracy"


def test_a_paired_difference_is_told_apart_by_the_examples_that_differ() -> None:
    one = torch.tensor([True] * 50 + [False] * 50)
    other = torch.tensor([True] * 62 + [False] * 38)
    value, low, high = paired(one, other)
    assert value == pytest.approx(0.12)
    # All twelve fall to one side: p ≥ .025^(1/12) of those that differ.
    assert low == pytest.approx(0.12 * (2 * 0.025 ** (1 / 12) - 1))
    assert high == pytest.approx(0.12)
    assert paired(other, one)[1] == pytest.approx(-high)
    mixed = other.clone()
    mixed[:12] = False
    value, low, high = paired(one, mixed)
    assert value == 0
    assert low == pytest.approx(-high)
    assert low < 0 < high


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ([], "for example: featscope probe"),
        (["net.py", "--data", "mnist", "--eps", "0.1"], "file.py:function"),
        (["{home}/net.py:lod", "--data", "{home}/data.npz", "--eps", "0.1"], "did you mean load"),
        (["{home}/net.py:load", "--data", "{home}/data.npz", "--eps", "eight"], "8/255"),
        (["{home}/net.py:load", "--data", "{home}/data.npz", "--eps", "0.1", "--budget", "soon"], "10m"),
        (["{home}/net.py:load", "--data", "minst", "--eps", "0.1"], "did you mean mnist"),
        (["{home}/net.py:gelu", "--weights", "{home}/weights.pth", "--data", "{home}/data.npz", "--eps", "0.1"], "check file and network"),
    ],
)  # fmt: skip
def test_what_is_mistyped_is_one_line(
    home: Path, tmp_path: Path, arguments: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [argument.format(home=home) for argument in arguments]
    assert invoke(["probe", *given, "--out", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err
    assert remedy in said
    assert said.startswith("error: ") or "\nerror: " in said


def test_folders_of_images_and_arrays_are_read(tmp_path: Path) -> None:
    from PIL import Image

    from featscope.probe.sources import examples

    x = (foreign.images(6, 1)[0] * 255).to(torch.uint8)
    for number, picture in enumerate(x):
        place = tmp_path / "images" / ("cat" if number < 4 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(place / f"{number}.png")
    found = examples(str(tmp_path / "images"))
    assert torch.equal(found.x, x)
    assert found.y.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.names == ("cat", "dog")
    np.save(tmp_path / "test-x.npy", x.numpy())
    np.save(tmp_path / "test-y.npy", np.arange(6))
    assert np.array_equal(examples(str(tmp_path / "test-x.npy")).x, x.numpy())
    save_file({"images": x, "labels": torch.arange(6)}, tmp_path / "data.safetensors")
    assert examples(str(tmp_path / "data.safetensors")).y.tolist() == [*range(6)]
    np.save(tmp_path / "objects-x.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "objects-y.npy", np.arange(1))
    with pytest.raises(BadInput, match="without pickles"):
        examples(str(tmp_path / "objects-x.npy"))
