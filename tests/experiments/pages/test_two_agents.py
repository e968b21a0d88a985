"""Two agents side by side: the same task and luck, budgets that drain as the ledgers say, legible in light and dark."""

from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from costgym.agents.registry import make_agent
from costgym.cli.play.show import show as show_command
from costgym.cli.setting_options import with_options
from costgym.envs.registration import make
from costgym.experiments.pages.episode_report import EpisodeReport, report_recorded
from costgym.experiments.pages.moving_picture import FRAMES_PER_SECOND, PLAY_S, THEMES, Scene, Shape, frame, gif, svg
from costgym.experiments.pages.two_agents import course_of, two_agents
from costgym.experiments.play.collect import collect
from costgym.simulators.errors import ConfigError

show = with_options(show_command)
LIMIT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    for agent in ("greedy", "cheapest"):
        env = make("costgym/Marketplace-v0", split="test", budget={"price": LIMIT}, disable_env_checker=True)
        collect(env, make_agent(agent), 2, folder / agent, seed=2)
    return folder


@pytest.fixture(scope="module")
def reports(folder: Path) -> tuple[EpisodeReport, EpisodeReport]:
    return report_recorded(folder / "greedy"), report_recorded(folder / "cheapest")


def test_each_budget_drains_to_what_its_ledger_left(reports: tuple[EpisodeReport, EpisodeReport]) -> None:
    scene = two_agents(*reports)
    bars = [shape for shape in scene.shapes if shape.colour == "budget"]
    for report, bar in zip(reports, bars, strict=True):
        course = course_of(report)
        left = LIMIT - sum(charge.price for charge in course.charges)
        assert (bar.share(0.0), bar.share(scene.span_s)) == (1.0, max(0.0, left) / LIMIT)
        words = f"{left:.3g} credits left" if left >= 0 else f"over budget by {-left:.3g}"
        assert words in [shape.text for shape in scene.shapes if shape.begin_s <= scene.span_s < shape.end_s]
        assert [call.tool for call in course.calls] == [call[0] for call in report.recorded.calls]
        assert course.success == (report.recorded.final["strict"] and report.recorded.final["exceeded"] is None)


def test_what_could_have_been_luck_is_not_compared(folder: Path) -> None:
    with pytest.raises(ConfigError, match="expected two episodes of one task"):
        two_agents(report_recorded(folder / "greedy", "0"), report_recorded(folder / "cheapest", "1"))


def test_the_drawing_is_a_document_that_follows_the_readers_mode_and_wish_for_rest(
    reports: tuple[EpisodeReport, EpisodeReport],
) -> None:
    drawn = svg(two_agents(*reports))
    root = ElementTree.fromstring(drawn)
    assert "greedy and cheapest on task" in (root[0].text or "")
    assert "prefers-color-scheme: dark" in drawn and "prefers-reduced-motion: reduce" in drawn and "<script" not in drawn


def test_a_gif_has_the_frames_of_its_scene() -> None:
    bar = Shape(10, 10, "running", size=20, width=80, shares=((0.0, 0.0), (4.0, 1.0)))
    scene = Scene("a bar that grows", 100, 40, 4.0, [bar, Shape(10, 30, "ok", size=5, width=80, begin_s=4.0)])
    with Image.open(BytesIO(gif(scene, "dark"))) as image:
        assert image.n_frames == PLAY_S * FRAMES_PER_SECOND + 1
    half = frame(scene, 2.0)
    blue, paper = (tuple(bytes.fromhex(THEMES["light"][role][1:])) for role in ("running", "paper"))
    assert (half.getpixel((49, 15)), half.getpixel((50, 15)), half.getpixel((20, 32))) == (blue, paper, paper)
    start = frame(scene, 0.03)  # the bar is 0.6 pixels wide
    assert (start.getpixel((10, 15)), start.getpixel((11, 15))) == (blue, paper)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("role", ["ink", "quiet", "good", "bad"])
def test_text_is_legible_in_light_and_dark(theme: str, role: str) -> None:
    colours = THEMES[theme]
    bright, dim = sorted((_luminance(colours[role]), _luminance(colours["paper"])), reverse=True)
    assert (bright + 0.05) / (dim + 0.05) >= 4.5


def _luminance(colour: str) -> float:
    parts = [value / 255 for value in bytes.fromhex(colour[1:])]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(
    ("format", "head", "recorded"),
    [("gif", b"GIF89a", True), ("svg", b"<svg ", False), ("html", b"<!doctype", True), ("png", b"\x89PNG", False)],
)
def test_the_command_takes_two_agents_or_two_recordings(
    folder: Path, tmp_path: Path, format: str, head: bytes, recorded: bool
) -> None:
    what = [str(folder / name) if recorded else name for name in ("greedy", "cheapest")]
    show(what=what, format=format, out=tmp_path / f"shown.{format}", seed=2)
    assert (tmp_path / f"shown.{format}").read_bytes().startswith(head)


@pytest.mark.parametrize(
    ("what", "format", "message"),
    [
        (["greedy"], "gif", "a gif shows two agents"),
        (["greedy", "cheapest", "random"], "svg", "one or two agents or recordings, got 3"),
        (["greedy", "pyproject.toml"], "svg", "two agents or two recordings"),
    ],
)
def test_what_cannot_be_compared_is_named(what: list[str], format: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        show(what=what, format=format)
