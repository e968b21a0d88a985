"""The pages of a board in a real browser, opened from disk: what it shows, how it is used, who can use it, how fast it is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.board.store.runs import Run, read_run
from costgym.experiments.leaderboard import show_episodes
from costgym.experiments.pages.episodes import write_episodes
from costgym.experiments.pages.leaderboard_page import pages_of
from costgym.simulators.opencatp.scenes.scene import SIZE
from tests.helpers.boards import HOSTILE, imagined, played
from tests.helpers.browser import (
    accessibility,
    chromium,
    complaints,
    drawn_text,
    foreign_requests,
    keyboard,
    visit,
    wait,
    window,
)
from tests.helpers.opencatp_runs import recorded_run

READY = "document.body.dataset.ready"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(played(tmp_path_factory.mktemp("run") / "run", episodes=22))


@pytest.fixture(scope="module")
def site(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose agents' names and messages are markup; one of them starts calls side by side."""
    assert run.folder is not None
    show_episodes(run.folder, None)
    return run.folder


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four agents under two budgets; nobody can look into an episode."""
    return imagined_board(tmp_path_factory.mktemp("board"))


def imagined_board(folder: Path, **settings: Any) -> Path:
    run = imagined(**settings)
    write_episodes(run, folder)
    for name, text in pages_of(run.document, episodes=True).items():
        (folder / name).write_text(text)
    return folder


def entry_of(run: Run, agent: str, limit: float) -> str:
    return next(entry.id for entry in run.entries if entry.row["agent"] == agent and entry.row["budget"] == {"price": limit})


def texts(driver: Any, selector: str) -> list[str]:
    script: list[str] = driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((e) => e.offsetParent).map((e) => e.textContent)", selector
    )
    return script


def click(driver: Any, selector: str) -> None:
    driver.execute_script("document.querySelector(arguments[0]).click()", selector)


def press(driver: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    chain = ActionChains(driver)
    for key in keys:
        chain = chain.send_keys(key)
    chain.perform()


def addresses(site: Path, run: Run) -> list[tuple[str, str, str]]:
    return [
        ("index.html", "", "!document.getElementById('controls').hidden"),
        ("episodes/index.html", "", READY),
        ("episodes/episode.html", f"#entry={entry_of(run, 'hasty', 10.0)}&at=1", READY),
        ("episodes/episode.html", f"#entry={entry_of(run, HOSTILE, 40.0)}&at=0", READY),
    ]


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_every_page_is_accessible_fits_a_phone_and_runs_no_markup(driver: Any, site: Path, run: Run, dark: bool) -> None:
    scores = []
    for name, address, until in addresses(site, run):
        window(driver, dark=dark)
        visit(driver, site / name, address, until)
        problems = accessibility(driver)
        scores.append((name, round(problems.score, 1)))
        assert problems.grave == [], name
        assert problems.score >= 90, (name, problems.violated)
        assert "owned" not in driver.title or "script" in driver.title
        assert driver.execute_script("return document.images.length") == 0
        assert complaints(driver) == []
        assert foreign_requests(driver) == []
        window(driver, width=380, height=800, dark=dark)
        visit(driver, site / name, address, until)
        wait(driver, "innerWidth === 380 && document.documentElement.scrollWidth <= innerWidth", 5.0)
    assert accessibility(driver).grave == []
    window(driver)
    assert any(HOSTILE in text for text in texts(driver, "#messages .said"))
    assert HOSTILE in texts(driver, "#where")[0]
    print("axe, rules passed of rules applicable, %:", scores)


def test_the_viewer_shows_calls_side_by_side_with_statuses_prices_and_the_ledger(driver: Any, site: Path, run: Run) -> None:
    entry = entry_of(run, "hasty", 10.0)
    visit(driver, site / "episodes" / "episode.html", f"#entry={entry}&at=1", READY)
    piece = (site / "episodes" / "data" / f"{entry}-0.js").read_text()
    episode = json.loads(piece.split(",", 1)[1].rstrip()[:-2])[1]
    bars = driver.execute_script("return [...document.querySelectorAll('#gantt a')].map((a) => a.getAttribute('aria-label'))")
    assert len(bars) == len(episode["calls"]) == len(texts(driver, "#call-table tbody tr"))
    for index, (call, label) in enumerate(zip(episode["calls"], bars, strict=True), 1):
        assert label.startswith(f"Call {index}: {call[0]}, {call[1].replace('_', ' ')}, from ")
    spans = driver.execute_script(
        "return [...document.querySelectorAll('#gantt a')].map((a) => a.getBBox()).map((b) => [b.x, b.x + b.width])"
    )
    assert any(a[0] < b[1] and b[0] < a[1] for a in spans for b in spans if a is not b)
    assert len(texts(driver, "#charge-table tbody tr")) == len(episode["charges"])
    assert driver.execute_script("return document.querySelectorAll('#ledger .dot').length") == sum(
        charge[2] > 0 for charge in episode["charges"]
    )
    assert texts(driver, "#query") == [episode["query"]]
    assert texts(driver, "#why") == [episode["why"]] and episode["why"].startswith("It failed because ")
    named = texts(driver, "#why a")
    assert named and all(re.fullmatch(r"call \d+", text) for text in named)
    click(driver, "#why a")
    assert texts(driver, "#call-table .chosen th") == [named[0].removeprefix("call ")]
    assert "entry=" in driver.current_url  # the link to a call does not take the place of the episode's address


@pytest.mark.slow
def test_the_viewer_shows_plans_over_the_opencatp_tools(driver: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="costgym[vision] makes the images again")
    site = recorded_run(tmp_path / "run")
    show_episodes(site, None)
    run = read_run(site)
    for entry in run.entries:
        episodes = json.loads((site / "episodes" / "data" / f"{entry.id}-0.js").read_text().split(",", 1)[1].rstrip()[:-2])
        for at in (0, 3):
            visit(driver, site / "episodes" / "episode.html", f"#entry={entry.id}&at={at}", READY)
            shown = driver.execute_script("return document.querySelectorAll('#gantt a').length")
            assert shown == len(episodes[at]["calls"])
            assert texts(driver, "#query") == [episodes[at]["query"]]
            assert texts(driver, "#verdict")[0].endswith(episodes[at]["verdict"])
            assert len(texts(driver, "#messages .said")) == sum(bool(step[1]) for step in episodes[at]["steps"])
            made = episodes[at]["made"]
            shown = [*made["made"], *(artefact for answer in made["answers"] for artefact in answer[2:])]
            assert driver.execute_script(
                "return [...document.images].map((i) => [i.alt, i.complete && i.naturalWidth, i.width])"
            ) == [[alt, SIZE, 120] for _, _, key, alt, _ in shown if key]
            assert texts(driver, "#images figure > p") == [text or "–" for _, _, key, _, text in shown if not key]
            problems = accessibility(driver)
            assert problems.grave == [] and problems.score >= 90
            assert complaints(driver) == []
    visit(driver, site / "episodes" / "index.html", "", READY)
    assert texts(driver, "th[data-sort=share]") == ["Task score, %"]


@pytest.mark.slow
def test_the_ranking_of_plans_sorts_by_every_column_and_has_the_theme_switch(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    run = recorded_run(tmp_path / "run")
    visit(driver, run / "index.html", "", "!document.getElementById('theme').hidden")
    click(driver, "#more")
    headings = driver.execute_script(
        "const heads = [...document.querySelectorAll('#board th[data-sort]')];"
        "return heads.filter((head) => head.offsetParent).map((head) => head.dataset.sort)"
    )
    assert {"agent", "quality_of_plan", "score", "average_cost", "plan_validity", "regret"} <= set(headings)
    for column in headings:
        button = driver.find_element(By.CSS_SELECTOR, f"#board th[data-sort={column}] button")
        orders = []
        for _ in range(2):
            button.click()
            orders.append(driver.execute_script("return arguments[0].closest('th').getAttribute('aria-sort')", button))
            blocks = driver.execute_script(
                "const at = arguments[0].closest('th').cellIndex, bodies = [...document.querySelectorAll('#board tbody')];"
                "const read = (row) => parseFloat(row.cells[at].innerText.replace('−', '-'));"
                "return bodies.map((body) => [...body.querySelectorAll('tr[data-row]')].map(read))",
                button,
            )
            if column in ("quality_of_plan", "score", "average_cost"):
                assert all(cells == sorted(cells, reverse=orders[-1] == "descending") for cells in blocks), (column, blocks)
        assert set(orders) == {"ascending", "descending"}, column
    themes = []
    for _ in range(3):
        click(driver, "#theme")
        themes.append((texts(driver, "#theme")[0], driver.execute_script("return document.documentElement.dataset.theme")))
    assert themes == [("Theme: light", "light"), ("Theme: dark", "dark"), ("Theme: auto", None)]
    assert complaints(driver) == []


def test_episodes_follow_each_other_by_keyboard_and_a_bar_leads_to_its_call(driver: Any, site: Path, run: Run) -> None:
    from selenium.webdriver.common.keys import Keys

    entry = entry_of(run, "hasty", 10.0)
    visit(driver, site / "episodes" / "episode.html", f"#entry={entry}&at=19", READY)
    press(driver, Keys.ARROW_RIGHT)
    wait(driver, f"document.body.dataset.ready === '{entry}/20'")
    press(driver, Keys.ARROW_LEFT)
    wait(driver, f"document.body.dataset.ready === '{entry}/19'")
    driver.execute_script("document.querySelector('#gantt a').focus()")
    press(driver, Keys.ENTER)
    assert driver.execute_script("return document.activeElement.id") == "call-1"
    assert driver.execute_script("return location.hash") == f"#entry={entry}&at=19"
    others = texts(driver, "#other-table tbody th")
    assert others == []  # the other agent plays in another track
    visit(
        driver,
        site / "episodes" / "episode.html",
        "#entry=nothing",
        "document.getElementById('query').textContent.startsWith('No such')",
    )


def test_the_list_filters_sorts_and_remembers(driver: Any, site: Path, run: Run) -> None:
    visit(driver, site / "episodes" / "index.html", "", READY)
    assert texts(driver, "#count") == ["1 to 88 of 88 episodes"]
    driver.execute_script(
        "const f = document.getElementById('filters'); f.elements.agent.value = 'hasty';"
        "f.elements.agent.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    wait(driver, "document.getElementById('count').textContent.startsWith('1 to 44 of 44 that fit')")
    click(driver, "th[data-sort=price] button")
    click(driver, "th[data-sort=price] button")
    prices = [float(text.replace(",", "")) for text in texts(driver, "#list tbody td:nth-child(7)")]
    assert prices == sorted(prices, reverse=True) and len(prices) == 44
    assert "agent=hasty" in driver.execute_script("return location.hash")
    driver.execute_script("document.querySelector('#list tbody a').click()")
    wait(driver, f"document.body.dataset.page === 'episode' && {READY}")
    driver.back()
    wait(
        driver,
        f"document.body.dataset.page === 'episodes' && {READY} && document.getElementById('count').textContent.includes('44')",
    )


FULL = "return document.querySelectorAll('#plot > i:not([hidden]):not(.faint)').length"
SENTENCE = "return document.querySelector('.cards:not([hidden]) .sentence').textContent"


def test_the_choice_of_a_budget_holds_for_answer_chart_and_table(driver: Any, board: Path) -> None:
    visit(driver, board / "index.html", "", "!document.getElementById('controls').hidden")
    seen = []
    for choice in ("1", "0"):
        click(driver, f"input[name=condition][value='{choice}']")
        rows = len(texts(driver, "#board tr[data-row]"))
        seen.append((driver.execute_script(SENTENCE).partition(":")[0], rows, driver.execute_script(FULL)))
    assert seen == [("20 ¢", 4, 1), ("10 ¢", 4, 1)]  # one agent has no model, and is ranked apart from the simulated ones
    click(driver, "input[name=kind][value=simulated]")
    assert "agent 2" in driver.execute_script(SENTENCE) and "(simulated model)" in driver.execute_script(SENTENCE)
    assert driver.execute_script(FULL) == 3
    click(driver, "#every")
    assert len(texts(driver, "#board tr[data-row]")) == 8


OVERPRINTS = """
const all = (selector) => [...document.querySelectorAll(selector)].map((e) => e.getBoundingClientRect());
const boxes = all("#plot > b"), marks = all("#plot > i:not([hidden]):not(.faint)");
const frame = document.getElementById("plot").getBoundingClientRect();
const meet = (a, b) => a.left < b.right - .5 && b.left < a.right - .5 && a.top < b.bottom - .5 && b.top < a.bottom - .5;
const path = document.getElementById("front").getAttribute("points").split(" ").map((xy) => xy.split(",").map(Number));
const front = path.slice(1).map(([x, y], i) => ({ left: Math.min(x, path[i][0]), right: Math.max(x, path[i][0]),
  top: Math.min(y, path[i][1]), bottom: Math.max(y, path[i][1]) })).map((box) => ({
  left: frame.left + box.left * frame.width / 100, right: frame.left + box.right * frame.width / 100,
  top: frame.top + box.top * frame.height / 100, bottom: frame.top + box.bottom * frame.height / 100 }));
return [boxes.length, boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => meet(a, b))).length,
  boxes.filter((a) => marks.some((b) => meet(a, b))).length,
  boxes.filter((a) => front.some((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length,
  boxes.filter((a) => a.left < frame.left - 1 || a.right > frame.right + 1).length]
"""


@pytest.mark.parametrize("width", [1400, 390])
def test_no_name_in_the_chart_covers_another_a_mark_or_the_frontier(driver: Any, tmp_path: Path, width: int) -> None:
    folder = imagined_board(tmp_path, agents=14, name="quite a long name {}")
    window(driver, width=width, height=900)
    visit(driver, folder / "index.html", "", "!document.getElementById('controls').hidden")
    for choice in ("0", "1"):
        click(driver, f"input[name=condition][value='{choice}']")
        names, *overprinted = driver.execute_script(OVERPRINTS)
        assert names >= 1 and overprinted == [0, 0, 0, 0]
    window(driver)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_and_axes_of_an_episodes_chart_stand_out_and_it_has_a_grid(driver: Any, site: Path, run: Run, dark: bool) -> None:
    window(driver, dark=dark)
    visit(driver, site / "episodes" / "episode.html", f"#entry={entry_of(run, 'hasty', 10.0)}&at=1", READY)
    seen = drawn_text(driver)
    assert seen.text >= 4.5 and seen.bare == 0 and seen.axis >= 3.0
    window(driver)


@pytest.mark.slow
def test_every_control_of_the_ranking_is_reached_and_used_by_keyboard_alone(driver: Any, board: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    visit(driver, board / "index.html", "", "!document.getElementById('controls').hidden")
    assert keyboard(driver) == (set(), set())

    def at(selector: str, *keys: str) -> None:
        driver.execute_script("document.querySelector(arguments[0]).focus()", selector)
        press(driver, *keys)

    at("input[name=condition]:checked", Keys.ARROW_LEFT)
    assert driver.execute_script(SENTENCE).startswith("10 ¢: ")
    at("#more", Keys.SPACE)
    assert driver.execute_script("return document.getElementById('more').getAttribute('aria-pressed')") == "true"
    at("th.agent button", Keys.ENTER)
    assert driver.execute_script("return document.querySelector('th.agent').ariaSort") == "ascending"
    at("input[type=search]", "no such agent")
    assert texts(driver, "#board tr[data-row]") == []
    assert complaints(driver) == []


@pytest.mark.slow
def test_ten_thousand_episodes_do_not_freeze_the_browser(driver: Any, tmp_path: Path) -> None:
    imagined_board(tmp_path, agents=10, episodes=500)
    visit(driver, tmp_path / "episodes" / "index.html", "", READY)
    assert driver.execute_script(f"return {READY}") == "10000"
    took = driver.execute_script("return performance.now()")
    assert texts(driver, "#count") == ["1 to 100 of 10,000 episodes"]
    assert driver.execute_script("return document.querySelectorAll('#list tbody tr').length") == 100
    for action in ("th[data-sort=price] button", "th[data-sort=task] button", "[data-step=last]", "[data-step=first]"):
        click(driver, action)
    driver.execute_script(
        "const t = document.getElementById('filters').elements.task; t.value = '0049';"
        "t.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    wait(driver, "document.getElementById('count').textContent.includes('of 220 that fit')")
    longest = driver.execute_script("return window.longest")
    print(f"10,000 episodes: shown after {took:.0f} ms, longest task {longest:.0f} ms")
    visit(driver, tmp_path / "index.html", "", "!document.getElementById('controls').hidden")
    print(f"ranking of them: longest task {driver.execute_script('return window.longest'):.0f} ms")
    assert complaints(driver) == []
