"""The shipped outcome table is what the executed tools gave."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.opencatp.backends.base import READERS, RESTORERS
from costgym.simulators.opencatp.scenes import degrade
from costgym.simulators.opencatp.scenes import scene as scenes
from costgym.simulators.opencatp.scoring import table
from costgym.simulators.opencatp.scoring.table import CHAINS, OUTPUTS, WANTED, OutcomeTable
from costgym.simulators.opencatp.tools import READER_OF
from tests.helpers.outcome_cells import cells_near, spot_check
from tests.helpers.vision import REPAIRS

TABLE = OutcomeTable.load()


def test_every_order_of_every_subset_of_the_restorers_is_there_once() -> None:
    assert len(CHAINS) == len(set(CHAINS)) == 65
    assert TABLE.scores.shape == (7, 15, 100, 65)
    assert TABLE.meta["outputs"] == list(OUTPUTS)


def test_scores_are_similarities() -> None:
    assert np.isfinite(TABLE.scores).all()
    assert TABLE.scores[0].min() >= -1.0
    assert TABLE.scores[1:].min() >= 0.0
    assert TABLE.scores.max() <= 1.0


def test_the_file_is_small_and_plain() -> None:
    assert table.TABLE.stat().st_size <= 5_000_000
    with np.load(table.TABLE, allow_pickle=False) as file:
        assert json.loads(str(file["meta"]))["format"] == table.FORMAT


def test_the_table_speaks_of_the_scenes_it_names() -> None:
    for sample in (0, 42, 99):
        scene = scenes.make_scene(TABLE.meta["seed"], sample)
        assert tuple(TABLE.wanted(sample, name) for name in WANTED) == table.wanted_texts(scene)


def test_a_score_is_that_of_the_text_it_belongs_to() -> None:
    for d, sample, number in cells_near(TABLE, 30, seed=1):
        chain = CHAINS[number]
        for name, reader in READER_OF.items():
            assert TABLE.score(d, sample, chain, name) == pytest.approx(TABLE.text_score(d, sample, chain, [reader], name))
            german = TABLE.text_score(d, sample, chain, [reader, "machine_translation"], f"{name}_de")
            assert TABLE.score(degrade.NAMES[d], sample, chain, f"{name}_de") == pytest.approx(german)


def test_every_route_of_text_tools_without_repeats_leads_to_a_text() -> None:
    route = ["image_captioning", "machine_translation", "sentiment_analysis", "text_summarization"]
    for reader in READERS:
        for end in range(1, 5):
            assert isinstance(TABLE.text(3, 5, (), [reader, *route[1:end]]), str)
    assert TABLE.text(3, 5, (), ["image_captioning", "sentiment_analysis"]) in ("positive", "negative")
    # the mood of a scene is not its caption
    assert TABLE.text_score(14, 5, (), ["image_captioning", "sentiment_analysis"], "caption") < 0.2


def test_what_is_not_in_the_table_is_named() -> None:
    with pytest.raises(UnknownName, match="nearest: label"):
        TABLE.score(0, 0, (), "labels")
    with pytest.raises(UnknownName, match="sample"):
        TABLE.score(0, 100, (), "image")
    with pytest.raises(UnknownName, match="degradation"):
        TABLE.score(15, 0, (), "image")
    with pytest.raises(UnknownName, match="image tool"):
        TABLE.score(0, 0, ("object_detection",), "image")
    with pytest.raises(DataError, match="at most once"):
        TABLE.score(0, 0, ("image_denoising", "image_denoising"), "image")
    with pytest.raises(UnknownName, match="image reader"):
        TABLE.text(0, 0, (), ["machine_translation"])
    with pytest.raises(UnknownName, match="text tool"):
        TABLE.text(0, 0, (), ["image_captioning", "image_denoising"])


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="costgym opencatp build-table"):
        OutcomeTable.load(tmp_path / "absent.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(DataError, match=r"not an \.npz"):
        OutcomeTable.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "other.npz", image=np.zeros(3))
    with pytest.raises(DataError, match="meta, reader, text"):
        OutcomeTable.load(tmp_path / "other.npz")
    np.savez(tmp_path / "pickled.npz", meta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="plain arrays"):
        OutcomeTable.load(tmp_path / "pickled.npz")


def test_a_look_up_needs_no_torch() -> None:
    code = (
        "import sys; from costgym.simulators.opencatp.scoring.table import OutcomeTable;"
        "OutcomeTable.load().score(0, 0, (), 'image'); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_restoring_in_the_right_order_is_worth_more_than_any_other() -> None:
    for d, kinds in enumerate(degrade.COMBINATIONS):
        chain = tuple(t for t in RESTORERS if t in [REPAIRS[k] for k in kinds])
        mean = TABLE.scores[0, d].mean(0)
        assert mean[table.chain_number(chain)] > mean[table.chain_number(())] + 0.05, degrade.NAMES[d]
        orders = [i for i, c in enumerate(CHAINS) if sorted(c) == sorted(chain)]
        assert mean[table.chain_number(chain)] >= mean[orders].max() - 0.02, degrade.NAMES[d]


def test_executing_cells_again_gives_what_the_table_says() -> None:
    pytest.importorskip("torch")
    from costgym.simulators.opencatp.backends.tiny import TinyBackend, weights_hash

    assert TABLE.meta["weights"] == weights_hash()
    assert spot_check(TABLE, TinyBackend(), cells_near(TABLE, 4, seed=2)) == []


@pytest.mark.slow
def test_a_table_can_be_built_and_a_killed_build_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from costgym.simulators.opencatp.backends.tiny import TinyBackend
    from costgym.simulators.opencatp.scoring.table_build import build_table

    class Killed(Exception):
        pass

    def stop(line: str) -> None:
        if line.startswith("2 of"):
            raise Killed

    out, backend = tmp_path / "t.npz", TinyBackend()
    with pytest.raises(Killed):
        build_table(out, backend, samples=1, progress=stop)
    assert not out.exists()
    done = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t.npz.parts").iterdir()}
    assert sorted(done) == ["0.npz", "1.npz"]
    build_table(out, backend, samples=1)
    assert [p.name for p in tmp_path.iterdir()] == ["t.npz"]
    small = OutcomeTable.load(out)
    assert small.scores.shape == (7, 15, 1, 65)
    # executed in other batches, a sum may round to the other side, and a reader then choose another word
    assert (np.abs(small.scores - TABLE.scores[:, :, :1]) > 0.01).mean() < 0.001
    assert spot_check(small, backend, cells_near(small, 3, seed=3)) == []
