"""The pages of a board's episodes: every episode in them, safe with any name, and boards joined into one."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import costgym
from costgym.experiments.board.store.runs import Run, read_run
from costgym.experiments.leaderboard import merge, show_episodes
from costgym.experiments.pages.episode_detail import details
from tests.helpers.boards import HOSTILE, played
from tests.helpers.command_line import invoke
from tests.helpers.opencatp_runs import recorded_run
from tests.helpers.site_data import data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(played(tmp_path_factory.mktemp("run") / "run"))


@pytest.fixture(scope="module")
def episodes(run: Run) -> Path:
    assert run.folder is not None
    return show_episodes(run.folder, None).parent


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_run_gives_the_same_bytes_and_its_pages_link_the_episodes(run: Run, episodes: Path) -> None:
    assert run.folder is not None
    before = content(run.folder)
    show_episodes(run.folder, None)
    assert content(run.folder) == before
    assert 'href="episodes/index.html#entry=' in (run.folder / "index.html").read_text()
    assert invoke("verify", run.folder).exit_code == 0  # the pages are no part of what is verified


def test_every_episode_is_listed_and_can_be_looked_into(run: Run, episodes: Path) -> None:
    about = data(episodes / "data" / "run.js")
    assert [entry["detailed"] for entry in about["entries"]] == [6] * 4
    for entry in run.entries:
        listed, shown = data(episodes / "data" / f"{entry.id}.js"), data(episodes / "data" / f"{entry.id}-0.js")
        assert listed["episode"] == [listed["episode"] for listed in shown] == list(range(6))
        for index, row in enumerate(shown):
            assert row["replayed"] and row["note"] == ""
            assert sum(charge[2] for charge in row["charges"]) == pytest.approx(row["final"]["price"])
            assert listed["price"][index] == pytest.approx(row["final"]["price"])
            assert len(row["calls"]) == row["final"]["attempts"] == listed["calls"][index]


def test_a_detail_holds_what_was_said_what_it_cost_and_why_it_failed(run: Run, episodes: Path) -> None:
    talker = next(entry for entry in run.entries if entry.row["agent"] == HOSTILE)
    first = data(episodes / "data" / f"{talker.id}-0.js")[0]
    messages = [step[1] for step in first["steps"]]
    assert messages[:2] == ["", HOSTILE] and messages[-1] == f"finish {json.dumps({'answer': HOSTILE})}"
    assert all(step[2] for step in first["steps"][:-1])
    assert any(HOSTILE in json.loads(call[9])[key] for call in first["calls"] if call[9] for key in json.loads(call[9]))
    assert {call[1] for call in first["calls"]} - {"ok"}


def test_calls_of_one_agent_run_side_by_side(run: Run, episodes: Path) -> None:
    hasty = next(entry for entry in run.entries if entry.row["agent"] == "hasty")
    shown = data(episodes / "data" / f"{hasty.id}-0.js")
    overlaps = sum(a[3] < b[6] and b[3] < a[6] for row in shown for a in row["calls"] for b in row["calls"] if a is not b)
    assert overlaps > 0


def test_an_edited_record_is_shown_as_one(run: Run, tmp_path: Path) -> None:
    assert run.folder is not None
    lines = (run.folder / run.entries[0].file).read_text().splitlines(keepends=True)
    record = json.loads(lines[2])
    record["final"]["price"] += 1.0
    lines[2] = json.dumps(record, separators=(",", ":")) + "\n"
    (tmp_path / "edited.jsonl").write_text("".join(lines))
    notes = [detail["note"] for detail in details(tmp_path / "edited.jsonl")]
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


def test_names_and_messages_stay_text_on_every_page(episodes: Path) -> None:
    pages = sorted(episodes.glob("*.html"))
    pages += sorted(episodes.parent.glob("*.html"))
    assert len(pages) == 4
    for page in pages:
        tags = Tags(page.read_text(encoding="utf-8")).found
        assert not any(tag in ("img", "b", "iframe") and "onerror" in attributes for tag, attributes in tags)
        assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
        assert all(attributes.get("src") or tag != "script" for tag, attributes in tags if page.parent == episodes)
        assert HOSTILE not in page.read_text(encoding="utf-8")
    assert not [path for path in (episodes / "data").iterdir() if not path.read_bytes().isascii()]


def test_no_page_asks_anything_of_the_network(episodes: Path) -> None:
    for path in episodes.rglob("*"):
        if path.suffix in (".html", ".js", ".css") and path.parent.name != "data":
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(
                r"https?://|//cdn|@import|url\(|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(|document\.write", text
            ), path
        if path.suffix == ".html":
            assert "default-src 'none'" in path.read_text(encoding="utf-8")


def test_every_link_leads_somewhere(episodes: Path) -> None:
    for page in [*episodes.glob("*.html"), *episodes.parent.glob("*.html")]:
        for _, attributes in Tags(page.read_text(encoding="utf-8")).found:
            target = attributes.get("href") or attributes.get("src")
            if target and not target.startswith(("#", "https://arxiv.org")):
                assert (page.parent / target.split("#")[0]).is_file(), (page.name, target)


def test_fewer_episodes_can_be_looked_into_where_that_is_asked_for(tmp_path: Path) -> None:
    board = played(tmp_path / "run")
    show_episodes(board, 2)
    assert {entry["detailed"] for entry in data(board / "episodes" / "data" / "run.js")["entries"]} == {2}


@pytest.mark.slow
def test_the_images_of_plans_are_those_that_the_episodes_name(tmp_path: Path) -> None:
    board = recorded_run(tmp_path / "run")
    folder = show_episodes(board, None).parent / "data"
    needed: dict[str, set[str]] = {}
    for entry in data(folder / "run.js")["entries"]:
        for row in data(folder / f"{entry['id']}-0.js"):
            made = row["made"]
            keys = {key for _, _, key, _, _ in [*made["made"], *(one for answer in made["answers"] for one in answer[2:])]}
            needed.setdefault(made["scene"], set()).update(keys - {""})
    assert {path.stem: set(data(path)) for path in folder.glob("scene-*.js")} == needed and len(needed) > 1


OPTIONS = ("--episodes", 3, "--budgets", "price=10,20", "--jobs", 1, "--quiet")


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Boards of the same worlds, and one of another seed."""
    folder = tmp_path_factory.mktemp("boards")
    for name, agents, seed in (("one", "greedy,cheapest", 0), ("two", "cheapest,random", 0), ("other", "greedy", 1)):
        assert invoke("leaderboard", "--agents", agents, "--seed", seed, "--out", folder / name, *OPTIONS).exit_code == 0
    return folder


def test_joined_boards_rank_beside_each_other_and_open_the_episodes_of_all(boards: Path, tmp_path: Path) -> None:
    before = content(boards)
    done = invoke("leaderboard", "--merge", boards / "one", boards / "two", "--out", tmp_path / "joined", "--json", "-")
    assert done.exit_code == 0, done.stderr
    document = json.loads(done.stdout)
    alone = [json.loads((boards / name / "leaderboard.json").read_text()) for name in ("one", "two")]
    figures = {(row["agent"], row["budget"]["price"]): row["average_cost"] for entry in alone for row in entry["rows"]}
    assert {(row["agent"], row["budget"]["price"]): row["average_cost"] for row in document["rows"]} == figures
    assert len(document["rows"]) == 6 and document["merged"] == [row["run"] for row in alone]
    assert {row["verified"] for row in document["rows"]} == {None}
    about = data(tmp_path / "joined" / "episodes" / "data" / "run.js")
    assert {(entry["agent"], entry["detailed"]) for entry in about["entries"]} == {
        (a, 3) for a in ("greedy", "cheapest", "random")
    }
    assert content(boards) == before


def test_a_row_of_the_same_name_with_other_figures_is_told_apart_by_its_folder(boards: Path, tmp_path: Path) -> None:
    path = tmp_path / "edited"
    for name, text in content(boards / "two").items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(text)
    document = json.loads((path / "leaderboard.json").read_text())
    document["rows"] = [{**row, "average_cost": 1.0} if row["agent"] == "cheapest" else row for row in document["rows"]]
    (path / "leaderboard.json").write_text(json.dumps(document))
    names = {row["agent"] for row in merge([boards / "one", path], tmp_path / "joined", most=0).document["rows"]}
    assert names == {"greedy", "cheapest", "cheapest (edited)", "random"}


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (("one",), "expected at least two folders"),
        (("one", "other"), "expected the same tasks, worlds and seeds in track 'numbers', got different seed"),
        (("one", "nothing"), "nothing: cannot be read"),
    ],
)
def test_boards_that_cannot_be_joined_say_why_and_nothing_is_written(
    folders: tuple[str, ...], message: str, boards: Path, tmp_path: Path
) -> None:
    done = invoke("leaderboard", "--merge", *(boards / name for name in folders), "--out", tmp_path / "joined", "--quiet")
    assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
