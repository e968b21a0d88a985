"""Pictures of episodes: complete, deterministic, of the promised size, and safe to open."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordVideo
from hypothesis import given
from hypothesis import strategies as st

import costgym
from costgym.envs.rendering.chart import COLOURS, chart_of, number, ticks, verdict
from costgym.envs.rendering.choice import Picture, facts_choice
from costgym.envs.rendering.draw import _Layout, chart_drawing, chart_picture, fit, text_width, wrap
from costgym.envs.rendering.terminal import choice_text, episode_table
from costgym.simulators.calls import WorldEvent
from costgym.simulators.failures import Bursts
from costgym.simulators.ledger import Budget
from costgym.simulators.status import Status
from costgym.simulators.world.episode import Episode
from tests.helpers.worlds import BROKEN, small_world, tool


def table(episode: Episode) -> str:
    return episode_table(episode, verdict(episode))


def page_of(episode: Episode) -> str:
    return chart_drawing(chart_of(episode), "an episode")


def busy() -> Episode:
    """Queueing, cold starts, refusals, a price change, a ban, and calls that are cut off."""
    world = small_world(
        tool("map", fee=3.0, concurrency=1, cold_start_s=0.6),
        tool("forecast", 1, latency_s=2.5),
        tool("news", 2, latency_s=0.02, rate_limit=2),
        events=[WorldEvent(1.0, "price_change", (0,), 2.0), WorldEvent(1.05, "ban", (1,)), WorldEvent(3.0, "unban", (1,))],
    )
    episode = world.episode(0, 0, Budget(price=100.0, seconds=6.0))
    for slot in (0, 0, 0, 1, 2, 2, 2):
        episode.submit(slot)
    episode.wait()
    return episode


def ended() -> Episode:
    episode = busy()
    while episode.in_flight:
        episode.wait()
    episode.submit(0)
    episode.submit(-1)
    episode.finish()
    return episode


def test_the_text_says_every_call_the_ledger_and_the_grade():
    world = small_world(tool("map", fee=2.0), tool("forecast", 1, latency_s=2.0))
    episode = world.episode(0, 0, Budget(price=10.0))
    episode.call(0)
    episode.submit(1)
    assert table(episode).splitlines() == [
        "task t0: find the facts",
        "budget: price 10; seed 0",
        "",
        "  #   start     end  tool      status             price",
        "  1    0.00    1.00  map       ok                     2",
        "  2    1.00          forecast  running                -",
        "",
        "at 1.00 s; still running: 1 of 2 facts; price 2, 1 executed calls, 0 tokens",
        f"price    {24 * '█'}{6 * '░'} 8 of 10 left",
    ]
    episode.finish()
    text = table(episode)
    assert "cancelled              1" in text and "50% of the facts, strict: fail" in text


def test_the_choice_shows_what_is_known_and_the_tools_that_could_bring_what_is_missing():
    world = small_world(tool("map", fee=2.0), tool("dear", fee=5.0), tool("forecast", 1, fee=1.0, advertised_success=0.5))
    episode = world.episode(0, 0, Budget(price=10.0))
    episode.call(2)
    episode.submit(1)
    choice = choice_text(facts_choice(episode, lambda slot: slot + 40)).splitlines()
    wishes = [need.wish or need.capability or "an answer" for need in episode.needs]
    assert choice == [
        "facts: 1 of 2 known; for the missing ones",
        f"  - 1 {wishes[0]}",
        f"    action  tool{33 * ' '}  price success  calls",
        f"        40  map{34 * ' '}      2    100%",
        f"        41  dear{33 * ' '}      5    100%  1 running",
        f"  + 2 {wishes[1]}: {episode.needs[1].fact}",
    ]
    episode.finish()
    assert choice_text(facts_choice(episode)) == ""


CHOICES = {"Session": "query 1 of ", "OpenCATP": "wanted: ", "Decision": "decision: ", "": "facts: "}


@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_every_environment_renders_the_choice_as_text_of_eighty_columns_as_a_picture_and_as_svg(env_id):
    title = next(title for word, title in CHOICES.items() if word in env_id)
    shown = {}
    for mode in ("ansi", "rgb_array", "svg"):
        env = gym.make(env_id, render_mode=mode, disable_env_checker=True)
        env.reset(seed=0)
        shown[mode] = env.render()
    lines = shown["ansi"].splitlines()
    assert max(map(len, lines)) <= 80 and any(line.startswith(title) for line in lines)
    assert f">{title}" in shown["svg"] and shown["svg"].count("a call</text>") >= 1
    empty = chart_picture(env.unwrapped.chart(), height=shown["rgb_array"].shape[0])
    assert shown["rgb_array"].shape == empty.shape and not np.array_equal(shown["rgb_array"], empty)
    assert ("<image " in shown["svg"]) == ("OpenCATP" in env_id)


def test_images_and_texts_that_tools_made_are_drawn_one_beside_the_other():
    red = np.full((8, 8, 3), (200, 10, 20), np.uint8)
    pictures = [Picture("Input", "noisy", red), Picture("captions", "on the input", text="a dog at the beach"), Picture("none")]
    chart = chart_of(ended())
    drawn = chart_picture(chart, pictures=pictures)
    assert (drawn == red[0, 0]).all(axis=2).sum() == 168 * 168
    assert drawn.shape[0] > chart_picture(chart).shape[0] + 168
    page = chart_drawing(chart, "an episode", pictures=pictures)
    assert page.count("<image ") == 1 and "a dog at the beach" in page and "(nothing)" in page


def test_a_video_is_recorded_with_gymnasiums_wrapper(tmp_path):
    pytest.importorskip("moviepy", reason="no moviepy here: install costgym[video]")
    made = costgym.make("costgym/Marketplace-v0", render_mode="rgb_array")
    with RecordVideo(made, str(tmp_path), episode_trigger=lambda episode: True, disable_logger=True) as env:
        _, info = env.reset(seed=0)
        while info["action_mask"][:-1].any():
            _, _, over, _, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
            if over:
                break
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 1_000


def test_an_episode_without_calls_has_a_picture_too():
    episode = small_world(tool("map")).episode(0)
    assert "no calls" in table(episode)
    assert chart_picture(chart_of(episode)).shape[1:] == (960, 3)


@pytest.mark.parametrize("width", [320, 640, 960])
@pytest.mark.parametrize("make", [busy, ended])
def test_the_image_is_rgb_of_the_width_asked_for_and_always_the_same(make, width):
    first, second = chart_picture(chart_of(make()), width), chart_picture(chart_of(make()), width)
    assert first.dtype == np.uint8 and first.shape[1:] == (width, 3)
    assert np.array_equal(first, second)


def test_every_meaning_in_the_chart_is_painted_in_its_colour():
    episode = ended()
    chart = chart_of(episode)
    assert set(chart.meanings) == {"ok", "refused", "cut off", "cold start", "queueing"}
    pixels = {tuple(pixel) for pixel in chart_picture(chart_of(episode)).reshape(-1, 3).tolist()}
    for meaning in chart.meanings:
        assert tuple(int(COLOURS[meaning][i : i + 2], 16) for i in (1, 3, 5)) in pixels


@pytest.mark.parametrize("height", [200, 540, 900])
def test_a_height_asked_for_is_kept(height):
    assert chart_picture(chart_of(ended()), 960, height).shape == (height, 960, 3)


def test_the_frames_of_a_video_are_of_one_size():
    env = gym.make("costgym/Marketplace-v0", concurrent=True, render_mode="rgb_array", disable_env_checker=True)
    env.reset(seed=0)
    shapes = {env.render().shape}
    for slot in range(10):
        env.step(slot)
        env.step(env.unwrapped.wait_action)
        shapes.add(env.render().shape)
    assert len(shapes) == 1


def test_the_page_is_one_wellformed_drawing_without_outside_links():
    page = page_of(ended())
    drawing = ElementTree.fromstring(re.search(r"<svg.*</svg>", page, re.DOTALL).group())
    assert drawing.attrib["width"] == "960"
    assert not re.search(r"(src|href)=|@import|url\(|<script", page)
    hints = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}title")}
    assert "map: ok, 0.00 to 1.60 s, price 3" in hints and "news: rate_limited, 0.00 to 0.05 s" in hints


def test_whatever_stands_in_names_and_queries_is_escaped():
    evil = '<script>alert("x")</script>&amp;'
    world = small_world(tool(evil))
    episode = world.episode(0)
    episode.submit(0, None, Status.FORBIDDEN, evil)
    episode.finish()
    page = page_of(episode)
    assert "<script" not in page and "&lt;script&gt;" in page
    ElementTree.fromstring(re.search(r"<svg.*</svg>", page, re.DOTALL).group())


def test_a_long_query_is_wrapped_whole_and_moves_everything_below_it_down():
    query = "find the weather in the capital of each country that the traveller named, and the price of a train to it " * 3
    short, long = (replace(chart_of(ended()), title=title) for title in ("find the facts", query))
    layout = _Layout(long, 960)
    assert len(layout.title) == 3 and " ".join(layout.title) == query.strip()
    assert (
        layout.top - _Layout(short, 960).top
        == layout.height - _Layout(short, 960).height
        == layout.title_tops[2] - layout.title_tops[0]
    )
    assert chart_picture(long).shape == (layout.height, 960, 3)
    assert all(f">{line}</text>" in chart_drawing(long, "an episode") for line in layout.title)


def test_names_that_are_very_long_or_no_latin_are_drawn():
    names = ("n" * 500, "天気予報", "a\tb\nc", "")
    episode = small_world(*(tool(name, i) for i, name in enumerate(names))).episode(0)
    for slot in range(4):
        episode.submit(slot)
    layout = _Layout(chart_of(episode), 960)
    assert layout.left < 0.4 * 960
    assert chart_picture(chart_of(episode)).shape == (layout.height, 960, 3)


def test_calls_that_overlap_lie_in_tracks_of_their_own():
    chart = chart_of(ended())
    for row in chart.rows:
        for track_number in range(row.track_count):
            bars = [bar for bar in row.bars if bar.track == track_number]
            assert bars and all(a.end_s <= b.asked_s for a, b in pairwise(bars))
    assert {row.name: row.track_count for row in chart.rows}["map"] == 3


@pytest.mark.parametrize("width", [320, 960])
def test_no_price_label_runs_into_the_next_bar_and_no_text_out_of_the_picture(width):
    layout = _Layout(chart_of(ended()), width)
    for row, top in zip(layout.chart.rows, layout.row_tops, strict=True):
        drawn = layout.bars(row, top)
        for i, (bar, _, _, label) in enumerate(drawn):
            if label is None:
                continue
            end = label[0] + text_width(bar.label, 10)
            assert end <= width
            later = [parts[0][1] for other, parts, _, _ in drawn[i + 1 :] if other.track == bar.track]
            assert all(end <= begin for begin in later)
    placed = sorted((level, x, x + text_width(marker.text, 11)) for marker, x, level in layout.events)
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(placed))
    assert all(begin >= 0 and end <= width for _, begin, end in placed)


def test_events_outages_and_limits_are_marked():
    failures = BROKEN.model_copy(update={"bursts": Bursts(every_s=2.0, lasts_s=2.0)})
    events = [WorldEvent(1.5, "price_change", (0,), 2.0), WorldEvent(90.0, "ban", (0,))]
    world = small_world(tool("map"), failures=failures, events=events)
    episode = world.episode(0, 0, Budget(price=3.0, seconds=10.0), "record")
    for _ in range(8):
        episode.call(0)
    chart = chart_of(episode)
    assert [(marker.at_s, marker.text) for marker in chart.markers] == [(1.5, "price x 2"), (10.0, "time limit")]
    assert chart.outages and "outage" in chart.meanings
    assert [meter.text for meter in chart.meters] == [f"{number(episode.ledger.price)} of 3", "8 of 10"]


@given(st.floats(1e-6, 1e7), st.integers(1, 20))
def test_ticks_are_round_few_and_on_the_axis(span, most):
    positions = ticks(span, most)
    assert positions[0] == 0.0 and positions[-1] <= span * (1 + 1e-9)
    assert len(positions) <= most + 1
    if len(positions) > 1:
        assert re.match(r"^[125](\.0*)?e", f"{positions[1]:.3e}")


@given(st.text(max_size=300), st.integers(40, 400), st.integers(1, 4))
def test_a_text_that_is_wrapped_fits_and_loses_nothing_while_there_is_room(text, room, most):
    lines = wrap(text, room, 12, most)
    assert 1 <= len(lines) <= most
    assert all(text_width(line, 12) <= room for line in lines)
    if all(text_width(word, 12) <= room for word in text.split()) and len(lines) < most:
        assert " ".join(lines) == " ".join(text.split())


@given(st.text(max_size=80), st.integers(0, 400))
def test_a_text_that_is_fitted_fits(text, room):
    assert text_width(fit(text, room)) <= room
