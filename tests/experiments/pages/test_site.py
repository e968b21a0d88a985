"""The static site: from folders and stores alike, with every episode in it, safe with any name."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.experiments.board.store.runs import Run, read_run
from costgym.experiments.pages.site.build import build
from costgym.experiments.pages.site.data import details
from costgym.experiments.pages.site.pages import RESAMPLES, compare, slug
from costgym.experiments.play.metrics import paired_difference
from tests.helpers.boards import HOSTILE, imagined, played
from tests.helpers.opencatp_runs import recorded_run
from tests.helpers.site_data import data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(played(tmp_path_factory.mktemp("run") / "run"))


@pytest.fixture(scope="module")
def site(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build([run], tmp_path_factory.mktemp("site") / "site").parent


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_results_give_the_same_bytes_from_a_folder_and_from_a_store(run: Run, site: Path, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from costgym.experiments.board.store.store import Store

    build([run], tmp_path / "again")
    with Store(str(tmp_path / "results.db")) as store:
        store.save(run)
        build(store.runs(), tmp_path / "stored")
    assert content(site) == content(tmp_path / "again") == content(tmp_path / "stored")


def test_every_episode_is_listed_and_can_be_looked_into(run: Run, site: Path) -> None:
    about = data(site / "data" / "run.js")
    assert [(entry["episodes"], entry["detailed"]) for entry in about["entries"]] == [(6, 6)] * 4
    for entry in run.entries:
        listed, shown = data(site / "data" / f"{entry.id}.js"), data(site / "data" / f"{entry.id}-0.js")
        assert listed["episode"] == [each["episode"] for each in shown] == list(range(6))
        for place, each in enumerate(shown):
            assert each["replayed"] and each["note"] == ""
            assert sum(charge[2] for charge in each["charges"]) == pytest.approx(each["final"]["price"])
            assert listed["price"][place] == pytest.approx(each["final"]["price"])
            assert len(each["calls"]) == each["final"]["attempts"] == listed["calls"][place]


def test_a_detail_holds_what_was_said_what_it_cost_and_why_it_failed(run: Run, site: Path) -> None:
    talker = next(entry for entry in run.entries if entry.row["agent"] == HOSTILE)
    first = data(site / "data" / f"{talker.id}-0.js")[0]
    said = [step[1] for step in first["steps"]]
    assert said[:2] == ["", HOSTILE] and said[-1] == f"finish {json.dumps({'answer': HOSTILE})}"
    assert all(step[2] for step in first["steps"][:-1])
    assert any(HOSTILE in json.loads(call[9])[key] for call in first["calls"] if call[9] for key in json.loads(call[9]))
    assert {call[1] for call in first["calls"]} - {"ok"}


def test_calls_of_one_agent_run_side_by_side(run: Run, site: Path) -> None:
    hasty = next(entry for entry in run.entries if entry.row["agent"] == "hasty")
    shown = data(site / "data" / f"{hasty.id}-0.js")
    overlaps = sum(a[3] < b[6] and b[3] < a[6] for each in shown for a in each["calls"] for b in each["calls"] if a is not b)
    assert overlaps > 0


@pytest.mark.slow
def test_only_the_viewer_of_a_run_with_images_may_show_images_and_only_those_it_holds(site: Path, tmp_path: Path) -> None:
    shown = build([read_run(recorded_run(tmp_path / "run"))], tmp_path / "site").parent
    build([read_run(tmp_path / "run")], tmp_path / "again")
    assert content(shown) == content(tmp_path / "again")
    policies = {
        (folder, page.name): next(tag["content"] for _, tag in Tags(page.read_text()).found if tag.get("http-equiv"))
        for folder in (site, shown)
        for page in folder.glob("*.html")
    }
    assert [page for page, policy in policies.items() if "img-src" in str(policy)] == [(shown, "episode.html")]
    assert str(policies[shown, "episode.html"]).endswith("; img-src data:")
    needed: dict[str, set[str]] = {}
    for entry in data(shown / "data" / "run.js")["entries"]:
        for each in data(shown / "data" / f"{entry['id']}-0.js"):
            made = each["made"]
            keys = {key for _, _, key, _, _ in [*made["made"], *(one for answer in made["answers"] for one in answer[2:])]}
            needed.setdefault(made["scene"], set()).update(keys - {""})
    assert {path.stem: set(data(path)) for path in (shown / "data").glob("scene-*.js")} == needed
    assert len(needed) > 1 and not list(site.glob("data/scene-*.js"))


def test_an_edited_record_is_shown_as_one(run: Run, tmp_path: Path) -> None:
    assert run.folder is not None
    lines = (run.folder / run.entries[0].file).read_text().splitlines(keepends=True)
    record = json.loads(lines[2])
    record["final"]["price"] += 1.0
    lines[2] = json.dumps(record, separators=(",", ":")) + "\n"
    (tmp_path / "edited.jsonl").write_text("".join(lines))
    notes = [each["note"] for each in details(tmp_path / "edited.jsonl")]
    assert notes[0] == "" and notes[2:] == [""] * 4
    assert notes[1].startswith("Replay does not agree with this record")


def test_a_record_of_another_version_is_shown_without_messages(run: Run, tmp_path: Path) -> None:
    assert run.folder is not None
    text = (run.folder / run.entries[0].file).read_text().replace(f'"version":"{costgym.__version__}"', '"version":"9.9.9"', 1)
    (tmp_path / "old.jsonl").write_text(text)
    shown = list(details(tmp_path / "old.jsonl"))
    assert len(shown) == 6
    assert "recorded with costgym 9.9.9" in shown[0]["note"] and not shown[0]["replayed"]
    assert shown[0]["calls"] and {step[2] for step in shown[0]["steps"]} == {""}


class Tags(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_names_and_messages_stay_text_on_every_page(site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    assert len(pages) == 6
    for page in pages:
        tags = Tags(page.read_text(encoding="utf-8")).found
        assert not any(tag in ("img", "b", "iframe") and "onerror" in attributes for tag, attributes in tags)
        assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
        assert all(
            attributes.get("src") or tag != "script" or page.name in ("index.html", "text.html") for tag, attributes in tags
        )
        assert HOSTILE not in page.read_text(encoding="utf-8")
    assert not [path for path in (site / "data").iterdir() if not path.read_bytes().isascii()]


def test_no_page_asks_anything_of_the_network(site: Path) -> None:
    for path in site.rglob("*"):
        if path.suffix in (".html", ".js", ".css") and path.parent.name != "data":
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(
                r"https?://|//cdn|@import|url\(|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(|document\.write", text
            ), path
        if path.suffix == ".html":
            assert "default-src 'none'" in path.read_text(encoding="utf-8")


def test_every_link_leads_somewhere(site: Path) -> None:
    for page in site.glob("*.html"):
        for _, attributes in Tags(page.read_text(encoding="utf-8")).found:
            target = attributes.get("href") or attributes.get("src")
            if target and not target.startswith("#"):
                assert (site / target.split("#")[0]).is_file(), (page.name, target)


def test_fewer_episodes_can_be_looked_into_where_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    build([run], tmp_path / "site", most=2)
    about = data(tmp_path / "site" / "data" / "run.js")
    assert {entry["detailed"] for entry in about["entries"]} == {2}
    with pytest.raises(costgym.ConfigError, match="--episodes"):
        build([run], tmp_path / "site", most=-1)


def test_several_runs_are_listed_on_the_first_page(run: Run, tmp_path: Path) -> None:
    page = build([run, imagined()], tmp_path / "site").read_text(encoding="utf-8")
    folders = re.findall(r'<th scope="row"><a href="([^"/]+)/index\.html">', page)
    assert len(folders) == 2 and all((tmp_path / "site" / name / "index.html").is_file() for name in folders)
    for name in folders:
        test_every_link_leads_somewhere(tmp_path / "site" / name)


def test_a_site_takes_the_place_of_a_site_and_of_nothing_else(tmp_path: Path) -> None:
    build([imagined(agents=3)], tmp_path / "site")
    build([imagined(agents=1)], tmp_path / "site")
    assert len(list((tmp_path / "site").glob("agent-*.html"))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(costgym.ConfigError, match="holds other files"):
        build([imagined()], tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(costgym.ConfigError, match="holds no run"):
        build([], tmp_path / "site")


def test_a_build_that_fails_leaves_the_old_site(run: Run, tmp_path: Path) -> None:
    build([imagined()], tmp_path / "site")
    before = content(tmp_path / "site")

    def broken() -> Any:
        raise costgym.DataError("episodes.jsonl", "is gone")

    with pytest.raises(costgym.DataError):
        build([dataclasses.replace(run, results=broken)], tmp_path / "site")
    assert content(tmp_path / "site") == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_comparisons_are_paired_and_adjusted_after_holm() -> None:
    board = imagined(agents=3, episodes=80)
    results: dict[str, list[Any]] = {}
    for entry, result in board.results():
        results.setdefault(entry, []).append(result)
    group = [entry for entry in board.entries if entry.row["budget"] == {"price": 10.0}]
    pairs = compare(group, results, "strict", 0)
    assert len(pairs) == 6
    expected = {
        key: paired_difference(results[key[0]], results[key[1]], "pass_rate_under_budget", seed=0, resamples=RESAMPLES)
        for key in pairs
    }
    for key, pair in pairs.items():
        assert pair.episodes == expected[key].episodes == 80
        assert (pair.ahead, *pair.ci95) == pytest.approx((expected[key].difference, *expected[key].ci95), abs=1e-12)
    passed = {entry.id: [each.strict and each.within_budget for each in results[entry.id]] for entry in group}
    raw = []
    for place, a in enumerate(group):
        for b in group[place + 1 :]:
            won = sum(one > other for one, other in zip(passed[a.id], passed[b.id], strict=True))
            lost = sum(one < other for one, other in zip(passed[a.id], passed[b.id], strict=True))
            # McNemar's test with its continuity correction
            raw.append(math.erfc(max(0, abs(won - lost) - 1) / math.sqrt(2 * (won + lost))))
    raw.sort()
    holm = [min(1.0, max(factor * p for factor, p in zip((3, 2, 1)[: k + 1], raw, strict=False))) for k in range(3)]
    assert sorted({pair.adjusted_p for pair in pairs.values()}) == pytest.approx(sorted(set(holm)))


def test_episodes_of_one_task_are_one_trial_of_the_test() -> None:
    """Each passes all episodes of 10 tasks that the other fails, or none: 10 trials, however many seeds a task has."""
    board = imagined(agents=2, episodes=40)
    a, b = [entry for entry in board.entries if entry.row["budget"] == {"price": 10.0}]
    lead = {
        entry.id: [dataclasses.replace(each, strict=entry is a, price=0.0) for each in own]
        for entry in (a, b)
        for own in [[r for e, r in board.results() if e == entry.id]]
    }
    for seeds in (1, 4):
        trials = 40 // seeds
        p = math.erfc((trials - 1) / math.sqrt(2 * trials))
        assert compare([a, b], lead, "strict", 0, seeds)[a.id, b.id].adjusted_p == pytest.approx(p)


def test_an_entry_that_met_other_worlds_is_not_compared() -> None:
    board = imagined(agents=3, episodes=20)
    results: dict[str, list[Any]] = {}
    for entry, result in board.results():
        results.setdefault(entry, []).append(result)
    group = [entry for entry in board.entries if entry.row["budget"] == {"price": 10.0}]
    results[group[2].id] = [dataclasses.replace(each, seed=1) for each in results[group[2].id]]
    results[group[1].id][4] = dataclasses.replace(results[group[1].id][4], void=True)
    pairs = compare(group, results, "strict", 0)
    assert set(pairs) == {(group[0].id, group[1].id), (group[1].id, group[0].id)}
    assert {pair.episodes for pair in pairs.values()} == {19}


def test_the_ranking_page_says_which_agents_are_significantly_ahead(tmp_path: Path) -> None:
    page = build([imagined(agents=4, episodes=100)], tmp_path / "site").read_text(encoding="utf-8")
    assert page.count('class="matrix"') == 2
    assert re.search(r'<td class="ahead"[^>]*>\+\d', page) and re.search(r'<td class="behind"[^>]*>−\d', page)


def test_names_that_read_alike_have_files_of_their_own() -> None:
    names = ["React", "react", "react ", "re/act", "../react", "", "‮react", "x" * 400]
    files = [slug(name) for name in names]
    assert len(set(files)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]{1,48}", file) for file in files)
