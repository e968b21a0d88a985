"""ToolPlanner's ablations are trained and played as `benchmarks/papers/authors.py` asks: in one folder, one after the other."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

for module in ("torch", "transformers", "peft", "safetensors"):
    pytest.importorskip(module, reason="the train extra is not installed")

from benchmarks.papers import feedback  # noqa: E402
from costgym.experiments.train.toolplanner.train import train_toolplanner  # noqa: E402
from costgym.simulators.errors import ConfigError  # noqa: E402
from costgym.simulators.tasks import LEVELS  # noqa: E402
from tests.helpers.tiny_model import save_tiny_model  # noqa: E402
from tests.helpers.toolplanner_world import TINY, WORLD  # noqa: E402


def train_briefly(out: str, **options: Any) -> Any:
    return train_toolplanner(out, WORLD, **{**options, **TINY, "shown": None})  # the teacher's paths are of another world


@pytest.mark.slow
def test_small_policies_and_a_published_model_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = save_tiny_model(tmp_path / "model")
    before = Path.cwd()
    monkeypatch.setattr(feedback, "train_toolplanner", train_briefly)

    def measured(name: str, *options: object) -> dict[str, Any]:
        report = tmp_path / f"{name}.json"
        usual = ("--seeds", "0", "--episodes", "1", "--out", str(tmp_path / "runs"), "--json", str(report))
        monkeypatch.setattr(sys, "argv", ["", *usual, *map(str, options)])
        try:
            feedback.main()
        finally:
            os.chdir(before)
        told: dict[str, Any] = json.loads(report.read_text())
        return told

    def agents(told: dict[str, Any]) -> set[str]:
        return {row["agent"] for row in told["rows"]}

    small = {feedback.BASE, "both", "without-completion", "without-following", feedback.NEITHER}
    told = measured("small")
    assert agents(told) == small
    listed = measured("board", "--protocol", "board")
    assert agents(listed) == small and listed["match_within_reach"] == dict.fromkeys(LEVELS[1:], 100)
    assert told["match_within_reach"].keys() == listed["match_within_reach"].keys()
    assert min(told["match_within_reach"].values()) < 100  # five retrieved tools do not hold every category that is named
    of_model = ("--model", model, "--no-bf16")
    told = measured("model", *of_model)
    assert agents(told) == {feedback.BASE, "both", "model-stage-1", "model"}
    assert {row["level"] for row in told["compared"]} == {"all", *LEVELS}
    ablated = {"model-without-completion", "model-without-following"}
    assert agents(measured("ablated", *of_model, "--ablated")) == agents(told) | ablated
    # trees of its own are grown by the stage 1 that there is; so small a model solves none of the tasks
    with pytest.raises(ConfigError, match="no round of 6 solution trees is a positive example"):
        measured("own", *of_model, "--own-trees", "5")
    runs = tmp_path / "runs"
    assert sorted(path.parent for path in runs.glob("*/sft/trees-*")) == [runs / "both-0" / "sft", runs / "model-0" / "sft"]
    assert (runs / "model-own-0").is_dir() and not (runs / "model-own-0" / "sft").exists()
