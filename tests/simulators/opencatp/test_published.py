"""The published back-end over tiny models with random weights, saved and loaded as the real ones are."""

from pathlib import Path

import numpy as np
import pytest

from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.opencatp.backends import measures
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, READERS, RESTORERS, TEXT_TOOLS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from costgym.simulators.opencatp.backends import published_networks as networks  # noqa: E402
from costgym.simulators.opencatp.backends.published import PublishedBackend  # noqa: E402
from tests.helpers.published_models import loaders, save_models  # noqa: E402

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 20, 28, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    save_models(folder)
    return folder


@pytest.fixture
def backend(root: Path) -> PublishedBackend:
    return PublishedBackend(root=root, loaders=loaders(), device="cpu", batch_size=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", RESTORERS)
def test_a_restorer_gives_one_image_for_each(backend: PublishedBackend, tool: str) -> None:
    out = backend.run(tool, IMAGES)
    factor = 2 if tool == "image_super_resolution" else 1
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.uint8
    assert out.shape == (3, 20 * factor, 28 * factor, 3)


@pytest.mark.parametrize("tool", READERS + TEXT_TOOLS)
def test_a_reader_or_text_tool_gives_one_text_for_each(backend: PublishedBackend, tool: str) -> None:
    out = backend.run(tool, IMAGES if tool in READERS else ["a kite", "in the snow", "a kite in the snow"])
    assert len(out) == 3
    assert all(isinstance(t, str) for t in out)
    assert out == backend.run(tool, IMAGES if tool in READERS else ["a kite", "in the snow", "a kite in the snow"])


def test_labels_are_the_models_own_words(backend: PublishedBackend) -> None:
    assert set(backend.run("image_classification", IMAGES)) <= {"kite", "fish", "ball"}
    assert set(backend.run("sentiment_analysis", ["a kite"])) <= {"positive", "negative"}


@pytest.mark.parametrize("tool", ALL_TOOLS)
def test_missing_weights_say_where_to_put_them(tmp_path: Path, tool: str) -> None:
    backend = PublishedBackend(root=tmp_path, device="cpu", models={tool: "no-such-maker/no-such-model"})
    inputs = ["a kite"] if tool in TEXT_TOOLS else IMAGES
    with pytest.raises(DataError, match=f"put them at {tmp_path}.no-such-maker.no-such-model"):
        backend.run(tool, inputs)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pth"
    torch.save({"params": networks.Siggraph17(width=2).state_dict()}, path)
    with pytest.raises(DataError, match="expected weights of Siggraph17"):
        networks.load_file(networks.Siggraph17(width=4), path)
    loaded = networks.load_file(networks.Siggraph17(width=2), path)
    assert not loaded.training


def test_a_weight_file_with_code_in_it_is_not_run(tmp_path: Path) -> None:
    import pickle

    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("ran",)

    path = tmp_path / "bad.pth"
    path.write_bytes(pickle.dumps(Bad()))
    with pytest.raises(DataError, match="not a file of plain weights"):
        networks.load_file(networks.Siggraph17(width=2), path)


def test_published_sizes_are_the_papers() -> None:
    def millions(network: torch.nn.Module) -> float:
        return round(sum(p.numel() for p in network.parameters()) / 1e6, 2)

    with torch.device("meta"):
        assert millions(networks.Restormer()) == 26.11  # Restormer, Table of parameters: 26.1 M
        assert 33.5 < millions(networks.Siggraph17()) < 34.5


def test_an_untrained_colouriser_keeps_the_lightness(backend: PublishedBackend) -> None:
    out = backend.run("image_colorization", np.full((1, 16, 16, 3), 128, np.uint8))
    assert isinstance(out, np.ndarray)
    assert np.abs(measures.lab(out)[..., 0] - 53.6).max() < 8.0


def test_bad_inputs_are_named(backend: PublishedBackend) -> None:
    with pytest.raises(UnknownName, match="image_denoising"):
        backend.run("image_denoise", IMAGES)
    with pytest.raises(DataError, match="expected a list of texts"):
        backend.run("machine_translation", "one text")
    with pytest.raises(DataError, match="uint8"):
        backend.run("image_denoising", IMAGES.astype(np.float32))


class Doubling:
    """A back-end whose super-resolution doubles the size, as the published one does; the others change nothing."""

    name = "doubling"

    def run(self, tool: str, inputs: np.ndarray | list[str]) -> np.ndarray | list[str]:
        if tool == "image_super_resolution":
            assert isinstance(inputs, np.ndarray)
            return inputs.repeat(2, axis=1).repeat(2, axis=2)
        return inputs.copy() if isinstance(inputs, np.ndarray) else inputs


def test_every_chain_is_executed_at_the_size_that_super_resolution_left() -> None:
    from costgym.simulators.opencatp.scoring.table import CHAINS
    from costgym.simulators.opencatp.scoring.table_build import _restored

    clean = np.random.default_rng(0).integers(0, 256, (2, 12, 16, 3), dtype=np.uint8)
    states = _restored(Doubling(), clean, 0, 2_000)
    assert set(states) == set(CHAINS)
    for chain, images in states.items():
        factor = 2 if "image_super_resolution" in chain else 1
        assert images.shape == (2, 12 * factor, 16 * factor, 3)
        assert (images[:, ::factor, ::factor] == states[()]).all()


@pytest.mark.slow
def test_a_table_of_published_models_is_built(root: Path, tmp_path: Path) -> None:
    from costgym.simulators.opencatp.scoring.table import OutcomeTable
    from costgym.simulators.opencatp.scoring.table_build import build_table

    build_table(tmp_path / "t.npz", PublishedBackend(root=root, loaders=loaders(), device="cpu", batch_size=64), samples=2)  # type: ignore[arg-type]
    table = OutcomeTable.load(tmp_path / "t.npz")
    assert table.meta["backend"] == "published" and table.meta["weights"] and table.scores.shape == (7, 15, 2, 65)
