"""Recording, resuming, and verification by replay."""

import json
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.agents.base import NUMERIC, TEXT
from costgym.experiments.board.verify import verify
from costgym.experiments.play.collect import collect
from costgym.experiments.play.episodes import play_many
from tests.helpers.records import Dice, leaf_paths, tampered


@pytest.fixture(scope="module", params=[NUMERIC, TEXT])
def collected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    collect(costgym.make(request.param, scenario="storm"), Dice(request.param), 12, folder, seed=5)
    return folder / "trajectories.jsonl"


def test_an_honest_file_verifies(collected: Path) -> None:
    verdict = verify(collected)
    assert verdict.problems == ()
    assert verdict.verified and verdict.episodes == 12


@pytest.mark.parametrize("env_id", [NUMERIC, TEXT])
def test_an_episode_is_the_same_with_a_record_and_without(env_id: str) -> None:
    env = costgym.make(env_id, scenario="storm", max_steps=4)
    recorded = list(play_many(env, Dice(env_id), env_id, range(12), 5))
    plain = list(play_many(env, Dice(env_id), env_id, range(12), 5, recorded=False))
    assert plain == [(result, None) for result, _ in recorded]
    assert {trajectory.truncated for _, trajectory in recorded if trajectory is not None} == {True, False}


def test_a_collection_that_was_cut_off_continues_with_the_same_bytes(collected: Path, tmp_path: Path) -> None:
    whole = collected.read_bytes()
    (tmp_path / "trajectories.jsonl").write_bytes(whole[: len(whole) * 2 // 3])
    env_id = json.loads(whole.splitlines()[0])["env"]
    collect(costgym.make(env_id, scenario="storm"), Dice(env_id), 12, tmp_path, seed=5)
    assert (tmp_path / "trajectories.jsonl").read_bytes() == whole


def test_every_tampered_field_is_found_and_named(collected: Path, tmp_path: Path) -> None:
    lines = collected.read_text().splitlines()
    generator = np.random.default_rng(1)
    forged = tmp_path / "trajectories.jsonl"
    edits = 0
    for number in (1, 4, 9):
        document = json.loads(lines[number])
        leaves = leaf_paths(document)
        chosen = {path[0]: path for path in leaves}  # one leaf of every field, then more at random
        more = [leaves[int(i)] for i in generator.integers(len(leaves), size=15)]
        for path in [*chosen.values(), *more]:
            forged.write_text("\n".join([lines[0], json.dumps(tampered(document, path))]) + "\n")
            verdict = verify(forged)
            assert not verdict.verified, path
            assert verdict.problems[0].startswith("line 2") or "line 2" in verdict.problems[0]
            edits += 1
    assert edits >= 60


@pytest.mark.parametrize("field", ["env", "digest", "version", "format", "seal"])
def test_a_tampered_header_is_found(collected: Path, tmp_path: Path, field: str) -> None:
    header, *rest = collected.read_text().splitlines()
    document = json.loads(header)
    document[field] += "x"
    (tmp_path / "trajectories.jsonl").write_text("\n".join([json.dumps(document), *rest]) + "\n")
    verdict = verify(tmp_path)
    assert not verdict.verified and "header" in verdict.problems[0]


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(costgym.DataError, match="no such file"):
        verify(tmp_path / "nothing.jsonl")
    (tmp_path / "trajectories.jsonl").write_text("")
    with pytest.raises(costgym.DataError, match="is empty"):
        verify(tmp_path)
    (tmp_path / "trajectories.jsonl").write_text("{}\n")
    with pytest.raises(costgym.DataError, match="line 1"):
        verify(tmp_path)


def test_a_folder_of_another_collection_is_refused(collected: Path) -> None:
    env_id = json.loads(collected.read_text().splitlines()[0])["env"]
    with pytest.raises(costgym.ConfigError, match="another scenario"):
        collect(costgym.make(env_id, scenario="marketplace"), Dice(env_id), 3, collected.parent, seed=5)
    with pytest.raises(costgym.ConfigError, match="another agent or seed"):
        collect(costgym.make(env_id, scenario="storm"), Dice(env_id), 3, collected.parent, seed=6)
