"""The training loop, on a learner of one weight."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.deer.settings import DeerConfig, DeerSettings
from costgym.experiments.train.run import TrainingRun, open_run, read_curve
from costgym.simulators.errors import DataError, TrainingFailed
from tests.helpers.training import StopAt

torch = pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("safetensors", reason="the train extra is not installed")

from costgym.agents.checkpoints import checkpoints, load_weights, read_state  # noqa: E402
from costgym.experiments.train.loop import Learner, Loss, optimise  # noqa: E402

CONFIG = DeerConfig(settings=DeerSettings(), scenario=None, data=())


class Parabola(Learner):
    """Goes down ``(w - 3) ** 2`` plus some noise of its own."""

    def __init__(self, steps: int = 6, start: float = 0.0) -> None:
        self.weight = torch.full((1,), start, requires_grad=True)
        self.weights, self.seed, self.adamw = {"w": self.weight}, 0, {"weight_decay": 0.0}
        self._steps, self.seen, self.checks, self.noise = steps, 0, 0, []  # type: ignore[var-annotated]

    @property
    def steps(self) -> int:
        return self._steps

    def rate(self, step: int) -> float:
        return 0.5 / (1 + step)

    def loss(self, step: int) -> Loss:
        self.seen += 1
        self.noise.append(float(torch.rand(())))
        return ((self.weight - 3.0) ** 2).sum() + self.noise[-1], {"seen": float(self.seen)}

    def check(self) -> dict[str, float]:
        self.checks += 1
        return {"distance": abs(float(self.weight.detach()) - 3.0)}

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.seen = state["seen"]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[TrainingRun]:
    with open_run(tmp_path / "run", CONFIG) as run:
        yield run


def test_the_loss_falls_and_every_step_is_reported(run: TrainingRun) -> None:
    learner = Parabola(steps=60)
    result = optimise(run, learner, save_every=20)
    lines = read_curve(run.folder)
    assert [line["step"] for line in lines] == list(range(1, 61)) and lines[0]["learning_rate"] == 0.5
    assert lines[-1]["loss"] < lines[0]["loss"] and (learner.checks, len(lines[0])) == (1, 4)
    assert result.metrics["distance"] == abs(float(learner.weight.detach()) - 3.0)
    assert result.metrics["loss"] == pytest.approx(sum(line["loss"] for line in lines[-50:]) / 50)
    assert json.loads((run.folder / "metrics.json").read_text()) == {"steps": 60, **result.metrics}
    assert [read_state(checkpoint)["step"] for checkpoint in checkpoints(run.folder)] == [40, 60]


def test_what_is_drawn_depends_on_the_step_alone(run: TrainingRun, tmp_path: Path) -> None:
    torch.manual_seed(1)
    straight, cut, again = Parabola(), Parabola(), Parabola()
    optimise(run, straight)
    torch.manual_seed(2)
    with open_run(tmp_path / "cut", CONFIG, callback=StopAt(2)) as other:
        assert not optimise(other, cut).finished
    with open_run(tmp_path / "cut", CONFIG) as other:
        result = optimise(other, again)
    assert [*cut.noise, *again.noise] == straight.noise and again.seen == 6
    assert torch.equal(straight.weight, again.weight) and read_curve(result.run) == read_curve(run.folder)


def test_figures_are_checked_now_and_then_where_that_is_asked_for(run: TrainingRun) -> None:
    optimise(run, Parabola(steps=5), check_every=2)
    assert ["distance" in line for line in read_curve(run.folder)] == [False, True, False, True, True]


def test_what_was_learnt_is_kept_where_the_check_at_the_end_fails(run: TrainingRun) -> None:
    class Killed(Parabola):
        def check(self) -> dict[str, float]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optimise(run, Killed())
    assert read_state(checkpoints(run.folder)[-1])["step"] == 6
    learner = Parabola()
    assert optimise(run, learner).finished and learner.noise == []


def test_a_finished_run_is_checked_again_where_its_metrics_are_gone(run: TrainingRun) -> None:
    first = optimise(run, Parabola())
    (run.folder / "metrics.json").unlink()
    learner = Parabola()
    assert optimise(run, learner) == first and learner.noise == []


def test_a_loss_in_parts_is_their_sum(run: TrainingRun, tmp_path: Path) -> None:
    class Halved(Parabola):
        def losses(self, step: int) -> Iterator[Loss]:
            for part in (1, 3):
                value = ((self.weight - 3.0) ** 2).sum() * part / 4
                yield value, {f"part {part}": float(value.detach())}

    class Whole(Parabola):
        def loss(self, step: int) -> Loss:
            return ((self.weight - 3.0) ** 2).sum(), {}

    whole, halved = Whole(), Halved()
    optimise(run, whole)
    with open_run(tmp_path / "parts", CONFIG) as parts:
        optimise(parts, halved)
    assert float(halved.weight.detach()) == pytest.approx(float(whole.weight.detach()), rel=1e-6)
    for line, expected in zip(read_curve(tmp_path / "parts"), read_curve(run.folder), strict=True):
        assert line["loss"] == pytest.approx(expected["loss"], rel=1e-6)
        assert 3 * line["part 1"] == pytest.approx(line["part 3"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_finite_number_ends_the_run(run: TrainingRun, value: float) -> None:
    class Broken(Parabola):
        def loss(self, step: int) -> Loss:
            loss, figures = super().loss(step)
            return loss * (value if step == 3 else 1.0), figures

    with pytest.raises(TrainingFailed, match=rf"step 3: the loss is {value}; the last good checkpoint is kept: .*00000002"):
        optimise(run, Broken(), save_every=2)
    assert len(read_curve(run.folder)) == 3


def test_a_weight_that_is_no_finite_number_is_not_saved(run: TrainingRun) -> None:
    class Broken(Parabola):
        def loss(self, step: int) -> Loss:
            loss, figures = super().loss(step)
            return (loss + (self.weight - self.weight).sqrt().sum() if step == 3 else loss), figures

    with pytest.raises(TrainingFailed, match="step 4: the weight w is no longer a finite number"):
        optimise(run, Broken(), save_every=2)
    assert [read_state(checkpoint)["step"] for checkpoint in checkpoints(run.folder)] == [2]


def test_gradients_are_clipped(run: TrainingRun) -> None:
    far = Parabola(steps=1, start=1e4)
    optimise(run, far)
    assert float(far.weight.grad.norm()) == pytest.approx(1.0, rel=1e-4)


def test_some_weights_learn_faster_than_others(run: TrainingRun) -> None:
    class Two(Parabola):
        faster = {"quick": 20.0}  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__(steps=1)
            self.weights = {name: torch.zeros(1, requires_grad=True) for name in ("slow", "quick", "last")}

        def loss(self, step: int) -> Loss:
            return sum(((weight - 3.0) ** 2).sum() for weight in self.weights.values()), {}

        def check(self) -> dict[str, float]:
            return {}

    two = Two()
    optimise(run, two)
    moved = {name: float(weight.detach()) for name, weight in two.weights.items()}
    # the first step of AdamW is as long as its rate
    assert moved == pytest.approx({"slow": 0.5, "quick": 10.0, "last": 0.5}, rel=1e-4)


def test_a_weight_that_is_no_finite_number_is_not_loaded(run: TrainingRun) -> None:
    weight = {"w": torch.full((1,), float("nan"))}
    run.save(1, weight, {}, {})
    kept = {"w": torch.zeros(1)}
    with pytest.raises(DataError, match="a weight is not a finite number"):
        load_weights(checkpoints(run.folder)[0], kept)
    assert float(kept["w"]) == 0.0


def test_checkpoints_of_other_weights_are_refused(run: TrainingRun, tmp_path: Path) -> None:
    optimise(run, Parabola())
    (newest,) = checkpoints(run.folder)
    with pytest.raises(DataError, match="weights of another policy; differing: v, w"):
        load_weights(newest, {"v": torch.zeros(1)})
    with pytest.raises(DataError, match=r"expected shape \(2,\), got \(1,\)"):
        load_weights(newest, {"w": torch.zeros(2)})
    (newest / "state.json").write_text('{"step": "six"}')
    with pytest.raises(DataError, match="expected a table with the number of steps"):
        optimise(run, Parabola(steps=9))
