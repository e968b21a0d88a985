"""Trained agents that ship: every one is listed, whole, and what its card says."""

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import costgym
from costgym.agents import agent_names, make_agent
from costgym.agents.registry import find_agent, run_folder
from costgym.agents.zoo import cards
from costgym.agents.zoo.cards import FOLDER, read_card, zoo_folder, zoo_names
from costgym.envs.registration import default_id
from costgym.experiments.board.run_config import weights_of
from costgym.experiments.board.tracks import track_of
from costgym.simulators.errors import DataError, MissingExtra, UnknownName
from costgym.simulators.retrieval.sentences import has_minilm

TRACKS = {
    "zoo:catp": "plans",
    "zoo:deer": "decisions",
    "zoo:deer-minilm": "decisions",
    "zoo:forged": "numbers",
    "zoo:lagrangian": "numbers",
    "zoo:ppo": "numbers",
    "zoo:sessions": "sessions",
    "zoo:sessions-v0": "sessions",
    "zoo:toolplanner": "text",
}


def test_every_trained_system_ships() -> None:
    assert {name: track_of(find_agent(name).env_id) for name in zoo_names()} == TRACKS
    assert set(TRACKS) <= set(agent_names())


@pytest.mark.parametrize("name", zoo_names())
def test_the_card_is_that_of_the_run(name: str) -> None:
    card, folder = read_card(name), zoo_folder(name)
    config = json.loads((folder / "config.json").read_text())
    trainer = config["trainer"]
    assert card.command.startswith((f"costgym train {trainer} ", f"python benchmarks/learning/{trainer}.py train "))
    assert card.seed == config["settings"]["seed"]
    assert card.figures and card.processor_minutes > 0
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {*card.files, "card.json"}
    assert weights_of([name])[name]


def test_the_zoo_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 15 * 2**20


def test_no_file_of_the_zoo_names_the_machine_it_was_trained_on() -> None:
    for path in FOLDER.rglob("*.json*"):
        assert not any(word in path.read_text() for word in ("/tmp", "/home", "/work", "/root")), path


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="zoo:ppo"):
        make_agent("zoo:pppo")


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the zoo with one agent."""
    shutil.copytree(FOLDER / "ppo", tmp_path / "ppo")
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    read_card.cache_clear()
    zoo_folder.cache_clear()
    yield tmp_path
    read_card.cache_clear()
    zoo_folder.cache_clear()


def test_weights_that_differ_from_the_card_are_refused(copied: Path) -> None:
    weights = next(copied.rglob("policy.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    with pytest.raises(DataError, match=r"policy\.safetensors.*digest"):
        run_folder("zoo:ppo")


def test_a_missing_file_is_named(copied: Path) -> None:
    (copied / "ppo" / "config.json").unlink()
    with pytest.raises(DataError, match=r"config\.json"):
        run_folder("zoo:ppo")


def test_without_torch_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in zoo_names():
        with pytest.raises(MissingExtra, match=r'pip install "costgym\[train\]"'):
            make_agent(name)


class StandIn:
    """In MiniLM's place where its extra is not installed: a vector of a text's characters, of MiniLM's length."""

    size = 384

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        counts = np.array([np.bincount([ord(mark) % self.size for mark in text], minlength=self.size) for text in texts], float)
        return counts / np.linalg.norm(counts, axis=1, keepdims=True)


@pytest.mark.parametrize("name", zoo_names())
def test_every_one_plays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    if name.endswith("minilm") and not has_minilm():
        monkeypatch.setattr("costgym.agents.deer.matching.sentence_embedding", lambda _: StandIn())
    entry = find_agent(name)
    env = costgym.make(default_id(entry.env_id, first=entry.trained_in), split="test")
    results = costgym.rollout(env, make_agent(name), episodes=2, seed=0)
    assert [result.agent for result in results] == [name] * 2
    assert not any("/" in (result.model or "") for result in results)
