"""The learning curve: what is written, cut and read."""

import json
from pathlib import Path

import pytest

from costgym.agents.deer.settings import DeerConfig, DeerSettings
from costgym.experiments.train.run import Callback, TrainingRun, TrainingStep, read_curve
from costgym.simulators.errors import DataError


def run_in(folder: Path) -> TrainingRun:
    return TrainingRun(folder, DeerConfig(settings=DeerSettings(), scenario=None, data=()), Callback())


def note(folder: Path, step: int) -> None:
    run_in(folder).report(TrainingStep("", step, step, step, {"loss": 2.0}))


def test_what_is_written_is_read_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    note(tmp_path, 64)
    with (tmp_path / "curve.jsonl").open("a") as lines:
        lines.write(json.dumps({"step": 128, "return": 0.5, "loss": True, "x": "y", "y": None}) + "\n")
    assert read_curve(tmp_path) == [{"step": 64.0, "loss": 2.0}, {"step": 128.0, "return": 0.5}]


def test_a_line_that_a_kill_cut_short_is_left_out_and_a_broken_one_is_named(tmp_path: Path) -> None:
    note(tmp_path, 1)
    with (tmp_path / "curve.jsonl").open("a") as lines:
        lines.write('{"step": 2, "lo')
    assert len(read_curve(tmp_path)) == 1
    with (tmp_path / "curve.jsonl").open("a") as lines:
        lines.write("\n")
    with pytest.raises(DataError, match="line 2"):
        read_curve(tmp_path)
    with pytest.raises(DataError, match="no learning curve"):
        read_curve(tmp_path / "none")
    (tmp_path / "curve.jsonl").write_text('{"loss": 1.0}\n')
    with pytest.raises(DataError, match="expected an object with a step"):
        read_curve(tmp_path)


@pytest.mark.parametrize(("step", "left"), [(0, []), (2, [1, 2]), (9, [1, 2, 3])])
def test_it_is_cut_after_a_step_and_where_it_cannot_be_read(tmp_path: Path, step: int, left: list[int]) -> None:
    run_in(tmp_path).cut_curve(step)
    for number in (1, 2, 3):
        note(tmp_path, number)
    with (tmp_path / "curve.jsonl").open("a") as lines:
        lines.write('broken\n{"step": 4}\n{"ste')
    run_in(tmp_path).cut_curve(step)
    assert [line["step"] for line in read_curve(tmp_path)] == left
