"""Learning curves: what is read, what is drawn, and that nothing of it calls for a network or a script."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from costgym.experiments.pages.learning_curves import (
    MAX_POINTS,
    curve_figures,
    curves_of_agent,
    curves_section,
    publish,
    series,
    write_curves,
)
from costgym.experiments.train.run import read_curve
from tests.helpers.boards import Hasty, played


def put(run: Path, lines: list[object]) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    (run / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


class Tags(HTMLParser):
    """Fails where a tag that must be closed is not."""

    void = ("meta", "line", "polyline", "circle", "link", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_telling_figures_come_first_and_unknown_ones_are_shown_too(tmp_path: Path) -> None:
    run = put(
        tmp_path,
        [{"step": step, "odd_one": step, "seconds": 2.0, "loss": 1.0, "success": 0.5, "multiplier": 0.0} for step in (1, 2)],
    )
    assert [point.name for point in series(read_curve(run))] == ["success", "loss", "odd_one"]
    page = write_curves(run).read_text()
    assert page.index("Success rate") < page.index("Loss") < page.index("Odd one")


def test_the_page_is_whole_has_no_script_and_asks_nothing_of_the_network(tmp_path: Path) -> None:
    run = put(tmp_path / "my <run>", [{"step": step, "loss": 1.0 / step, "<b>": step} for step in range(1, 2001)])
    page = write_curves(run)
    text = page.read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == [] and "script" not in tags.seen and tags.seen.count("svg") == 2
    assert "<b>" not in text and "&lt;b&gt;" in text and "my &lt;run&gt;" in text
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*(?!["']?#)""", text)
    assert "light-dark(" in text and "prefers" not in text
    points = re.findall(r' d="(M[^"]*)"', text)
    assert all(line.count("L") < MAX_POINTS for line in points)
    assert write_curves(run).read_text() == text


@pytest.mark.parametrize("values", [[0.0], [3.0, 3.0], [1e-9, 2e-9], [-5.0, 1e6, 2.0], [0.0, 0.0, 0.0], [-1e300, 1e300]])
def test_any_numbers_can_be_drawn(tmp_path: Path, values: list[float]) -> None:
    run = put(tmp_path, [{"step": number + 1, "loss": value} for number, value in enumerate(values)])
    figures = curve_figures(run)
    assert "nan" not in figures and "inf" not in figures.replace("info", "")
    for path in re.findall(r' d="(M[^"]*)"', figures):
        assert all(-10 <= float(number) <= 400 for number in re.findall(r"-?[\d.]+", path))


def test_the_strong_line_is_a_running_mean_up_to_its_ends(tmp_path: Path) -> None:
    run = put(tmp_path, [{"step": step, "loss": float(step % 2)} for step in range(1, 41)])
    assert "0.333 at the end" in curve_figures(run)  # of the last three: 0, 1, 0


@pytest.mark.parametrize("limit", [7.0, 0.5, 300.0])
def test_a_limit_is_a_line_within_the_chart(tmp_path: Path, limit: float) -> None:
    run = put(tmp_path, [{"step": step, "cost": 12.0 - step, "limit": limit, "success": 0.5} for step in range(1, 6)])
    page = str(curve_figures(run))
    cost, success = (
        page.split("</figure>")[:2] if page.index("Cost") < page.index("Success rate") else page.split("</figure>")[1::-1]
    )
    assert "stroke-dasharray" in cost and f"limit {limit:g}</text>" in cost
    assert "stroke-dasharray" not in success
    heights = [float(y) for y in re.findall(r"M [\d.]+ ([\d.]+)[^M\"]*\"[^>]*stroke-dasharray", cost)]
    (top, bottom) = (0.0, float(re.search(r'viewBox="0 0 [\d.]+ ([\d.]+)"', cost)[1]))  # type: ignore[index]
    assert heights and all(top < height < bottom for height in heights)


def test_an_earlier_stage_has_its_own_section(tmp_path: Path) -> None:
    put(tmp_path / "sft", [{"step": 1, "loss": 2.0}])
    put(tmp_path, [{"step": 1, "loss": 1.0, "ranking": 0.5}])
    page = write_curves(tmp_path).read_text()
    assert page.index("Stage 1: sft") < page.index("Stage 2") and page.count("<svg") == 3


def test_figures_can_be_put_into_another_page(tmp_path: Path) -> None:
    run = put(tmp_path / "x", [{"step": 1, "loss": 2.0, "success": 0.5}, {"step": 2, "loss": 1.0, "success": 0.75}])
    assert curve_figures(run, 1).count("<figure>") == 1
    assert curves_of_agent({"agent": f"sb3:{run}"}) == curve_figures(run)
    assert curves_of_agent({"agent": "react"}) == curves_of_agent({"agent": f"sb3:{tmp_path / 'y'}"}) == ""


def test_results_show_how_their_trained_agents_learnt(tmp_path: Path) -> None:
    run = put(tmp_path / "x", [{"step": step, "loss": 2.0, "return": 1.0, "success": 0.5, "cost": 9.0} for step in (1, 2)])
    row, untrained = {"agent": f"sb3:{run}"}, {"agent": "react"}
    assert curves_of_agent(row).count("<figure>") == 3
    section = curves_section([untrained, row, row])
    assert section.count("<h3>") == 1 and section.count("<figure>") == 3
    Tags().feed(section)
    assert curves_section([untrained, {"agent": "sb3:" + 5000 * "x"}, {"agent": f"sb3:{tmp_path}"}]) == ""
    assert curves_of_agent({**row, "submission": {"name": "somebody"}}) == ""
    (run / "curve.jsonl").write_text("no curve\n")
    assert curves_of_agent(row) == ""


def test_the_page_of_a_leaderboard_has_the_curves_of_trained_agents_only(tmp_path: Path) -> None:
    run = put(tmp_path / "x", [{"step": step, "return": step / 2} for step in (1, 2, 3)])

    class Learnt(Hasty):
        name = f"sb3:{run}"

    board = played(tmp_path / "board", (Learnt(), Hasty()), episodes=2)
    page = (board / "index.html").read_text()
    assert "How the trained agents learnt" in page and page.count("<h3>") == 1


def test_a_run_without_a_curve_has_no_page(tmp_path: Path) -> None:
    assert publish(tmp_path) is None


def test_the_curve_is_there_for_tensorboard_too(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the train extra is not installed")
    pytest.importorskip("torch", reason="the train extra is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    put(tmp_path, [{"step": 1, "loss": 2.0}, {"step": 5, "loss": 1.5}])
    publish(tmp_path)
    assert publish(tmp_path) == tmp_path / "curves.html"  # a second time replaces them
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 2.0), (5, 1.5)]
