"""Every paper's tables: rows of one shape, deterministic, with intervals, shown whole on pages and terminals; and claims."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from costgym import ConfigError, UnknownName
from costgym.agents import registry
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.models.simulated import read_rates
from costgym.cli.learn.reproduce import print_reproduction
from costgym.experiments.papers import btp, deer, ecoact, toolplanner
from costgym.experiments.papers.claims import QUALITY_MARGIN, UNPUBLISHED, Printed, counted, effect, two_sided
from costgym.experiments.papers.page import write_page
from costgym.experiments.papers.paper import PUBLISHED_ROWS, Job, Paper, Tables, published
from costgym.experiments.papers.playing import enlarged
from costgym.experiments.papers.reproduce import PAPERS, reproduce
from costgym.experiments.papers.tables import effect_lines, notes, tables, verdict
from costgym.simulators.scenario import load_scenario
from tests.helpers.shared_data import shared

EPISODES = {"ecoact": 3, "deer": 8, "btp": 3, "toolplanner": 2}
QUICK = ("ecoact", "deer")


class Run(NamedTuple):
    paper: Paper
    folder: Path
    tables: Tables


@pytest.fixture(scope="module", autouse=True)
def _thresholds_from_few_samples() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deer, "FITTED_ON", 100)
        yield


@pytest.fixture(scope="module", params=[pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in EPISODES])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    return Run(PAPERS[request.param], folder, reproduce(request.param, episodes=EPISODES[request.param], out=folder))


def test_every_row_names_its_protocol_and_lies_within_its_interval(run: Run) -> None:
    assert run.tables["paper"] == published(run.paper.name)
    for name in run.tables.keys() - {"paper"}:
        assert {row["protocol"] for row in run.tables[name]} == {protocol.name for protocol in run.paper.protocols}
    for row in (*run.tables["ours"], *run.tables.get("differences", ()), *run.tables.get("curves", ())):
        assert all(low <= row[key] <= high for key, (low, high) in row["ci95"].items() if isinstance(row.get(key), float))
    for row in run.tables["effects"]:
        assert isinstance(row["follows"], bool) and row["measured"] and bool(row.get("reason")) == row["by_construction"]


def test_a_run_that_is_there_is_not_played_again(run: Run) -> None:
    at: list[tuple[int, int]] = []
    again = reproduce(
        run.paper.name, episodes=EPISODES[run.paper.name], out=run.folder, jobs=2, progress=lambda *step: at.append(step)
    )
    assert again == run.tables and all(done == total for done, total in at)


def test_the_page_says_what_follows_and_has_every_picture(run: Run, tmp_path: Path) -> None:
    effects = run.tables["effects"]
    text = write_page(run.paper, run.tables, tmp_path, "costgym reproduce").read_text()
    assert verdict(effects) in text and "simulated" in text and notes(run.paper, run.tables) in text
    assert text.count("DOES NOT FOLLOW") == sum(not row["by_construction"] and not row["follows"] for row in effects)
    assert text.count("by construction |") == sum(row["by_construction"] for row in effects)
    pictures = list(tmp_path.glob("*.svg"))
    assert len(pictures) >= ("curves" in run.tables) + 1
    for picture in pictures:
        assert picture.name in text
        ElementTree.fromstring(picture.read_text())


def test_all_is_read_in_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_reproduction(run.paper, run.tables)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert "source:" in text and "simulated" in text
    for _, headings, lines in tables(run.paper, run.tables):
        at = headings.index("agent")
        assert all(word in text for heading in headings[at:] for word in heading.split())
        assert all(word[:14] in text for line in lines for word in line[at].split())  # a long name is folded


def test_published_figures_are_shares_with_their_sources() -> None:
    for name in PUBLISHED_ROWS:
        for row in published(name):
            assert row["source"] and row["agent"] and row["ci95"] == {}
            for key, value in row.items():
                if key.startswith(("p_", "tag_")) or "rate" in key:
                    assert 0 <= value <= 1
    published("btp")[0]["agent"] = "changed"
    assert published("btp")[0]["agent"] == "react"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["btp", "toolplanner"])
def test_a_run_that_was_stopped_plays_only_what_is_missing(name: str, tmp_path) -> None:
    small = {"episodes": 2, "out": tmp_path}
    first = reproduce(name, **small)
    files = sorted(tmp_path.glob("board/**/*-*.jsonl"))
    files = [path for path in files if (path.parent / "run.json").exists()]
    before = {path: path.read_bytes() for path in files}
    files[3].unlink()
    steps: list[tuple[int, int]] = []
    assert reproduce(name, **small, jobs=2, progress=lambda *at: steps.append(at)) == first
    assert steps[-2:] == [(len(files) - 1, len(files)), (len(files), len(files))]
    assert {path: path.read_bytes() for path in files} == before
    with pytest.raises(ConfigError, match="another run"):
        reproduce(name, **small, seed=1)


def test_a_protocol_holds_the_papers_settings() -> None:
    published, board = btp.PROTOCOLS
    assert published.candidates == {"": 5} and board.scenario(load_scenario("marketplace")) == load_scenario("marketplace")
    assert BtpSettings(**published.btp) == BtpSettings.published()
    assert SearchSettings.chosen(published.search, "tot-dfs") == SearchSettings.btp(tree_of_thoughts=True)
    assert SearchSettings.chosen(published.search, "dfsdt") == SearchSettings.toolbench()
    assert SearchSettings.chosen(board.search, "react") is None
    assert SearchSettings.chosen(ecoact.PROTOCOLS[0].search, "react") == SearchSettings.ecoact()
    assert max(high for _, high in ecoact.PROTOCOLS[0].candidates.values()) == 64
    assert SearchSettings.chosen(toolplanner.PROTOCOLS[0].search, "dfsdt") == SearchSettings(depth=4, queries=30)
    candidates = toolplanner.PROTOCOLS[0].scenario(load_scenario("marketplace")).source.candidates
    assert candidates.k == 5 and candidates.retriever == "bm25"
    strict = replace(btp.PROTOCOLS[0], judge={"curve": 9.0}).scenario(load_scenario("marketplace"))
    assert (strict.judge.curve, strict.judge.none, strict.source.candidates) == (
        9.0,
        load_scenario("marketplace").judge.none,
        5,
    )
    many = replace(ecoact.PROTOCOLS[0], source={"candidates": {"retriever": "bm25"}})
    assert many.scenario(load_scenario("marketplace"), "more than 20").source.candidates.k == 64
    assert read_rates(btp.PROTOCOLS[0].model).thought == 0.13 and btp.PROTOCOLS[1].model == "simulated"
    assert all(paper.protocols[0].name == "published" for paper in PAPERS.values())


def test_enough_tasks_are_made_for_every_episode_to_have_its_own() -> None:
    assert len(enlarged(load_scenario("marketplace"), 450).build().tasks.numbers("test")) == 450
    assert enlarged(load_scenario("marketplace"), 10) == load_scenario("marketplace")


def test_what_cannot_be_reproduced_is_a_clear_error() -> None:
    with pytest.raises(UnknownName, match="ecoact"):
        reproduce("eco")
    with pytest.raises(ConfigError, match="episodes"):
        reproduce("btp", episodes=0)
    with pytest.raises(ConfigError, match="deer"):
        reproduce("btp", data="x")
    with pytest.raises(ConfigError, match="--data"):
        reproduce("deer", models=("small",))


@pytest.mark.parametrize(
    ("low", "high", "paper", "expected"),
    [(-4, 8, 0, "same"), (11, 20, 0, "larger"), (-30, -11, 0, "smaller"), (5, 15, 0, "open"), (20, 40, 30, "same")],
)
def test_a_difference_is_compared_with_the_papers_on_both_sides(low: float, high: float, paper: float, expected: str) -> None:
    assert two_sided(low, high, paper) == expected


def test_a_claim_stands_beside_the_papers_level_where_the_paper_prints_it() -> None:
    paper = Printed(22.0, 57.0, 15.0)
    row = effect("tool: Match rises", "", True, points=(20.0, 15.0, 25.0), paper=paper, levels=(26.0, 46.0))
    assert (row["paper"], row["distance"], row["spreads"], row["two_sided"]) == (35.0, -15.0, -1.0, "open")
    assert (row["paper_levels"], row["levels"]) == ([22.0, 57.0], [26.0, 46.0])
    assert effect_lines([row])[0][4] == "+35.0: 22.0 to 57.0; here 26.0 to 46.0 (-15.0, -1.0 spreads: open)"
    plan = effect("CATP is above", "", True, points=(0.02, 0.01, 0.03), paper=Printed(0.2, 0.26, 0.04), margin=QUALITY_MARGIN)
    assert (plan["paper"], plan["distance"], plan["two_sided"]) == (0.06, -0.04, "same")
    assert "paper" not in effect("cost falls", "", True)


@pytest.mark.parametrize("name", ["deer", pytest.param("toolplanner", marks=pytest.mark.slow)])
def test_a_trained_row_stands_beside_the_simulated_ones_where_torch_is_there(name: str, monkeypatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(registry, "find_spec", lambda module: None)
        report = reproduce(name, episodes=4)
    assert not any("zoo:" in row["agent"] for row in report["ours"])
    assert f"The row of zoo:{name} is left out" in notes(PAPERS[name], report)
    pytest.importorskip("torch", reason="the train extra is not installed")
    more = reproduce(name, episodes=4)
    assert [row for row in more["ours"] if "zoo:" not in row["agent"]] == report["ours"]
    assert {row["model"] for row in more["ours"] if row["agent"] == f"zoo:{name}"} == {
        "small" if name == "deer" else "zoo:toolplanner"
    }
    assert "left out: it needs" not in notes(PAPERS[name], more)


def test_claims_by_construction_and_those_of_no_paper_are_counted_nowhere() -> None:
    rows = [
        {"claim": "a", "follows": True, "by_construction": True, "source": "Table 1"},
        {"claim": "b", "follows": False, "by_construction": False, "source": UNPUBLISHED},
        {"claim": "c", "follows": False, "by_construction": False, "source": "Table 1"},
    ]
    assert verdict(rows).startswith("0 of 1 effects follow; 1 do not")


# -- EcoAct and DEER -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["ecoact"], indirect=True)
def test_ecoacts_chains_may_be_twice_as_long(run: Run) -> None:
    report, folder = run.tables, run.folder
    rows = report["ours"]
    assert json.loads((folder / "board" / "ecoact-0" / "run.json").read_text())["search"] == {"depth": 24}
    published = json.loads((folder / "published" / "ecoact-0" / "run.json").read_text())["search"]
    assert (published["depth"], published["unit"]) == (24, "nodes")
    shares = {
        row["agent"]: row["registered_share"]
        for row in rows
        if (row["protocol"], row["group"]) == ("board", "more than 20") and "registered_share" in row
    }
    assert 0 < shares["react+ecoact"] < shares["react+ecoact-several"] < 1
    steps = [
        row["registered_share"] for row in report["curves"] if (row["protocol"], row["agent"]) == ("board", "react+ecoact")
    ]
    assert len(steps) == 24 and steps == sorted(steps) and steps[-1] == shares["react+ecoact"]
    cost = {row["claim"]: row for row in report["effects"] if row["protocol"] == "published"}
    cheaper = cost["react, more than 20 tools: EcoAct costs at least 45 % less"]
    assert cheaper["paper"] == -54.0 and cheaper["here"][0] == pytest.approx(cheaper["paper"] + cheaper["distance"], abs=0.1)


@pytest.mark.slow
def test_ecoact_saves_most_where_tools_are_many() -> None:
    rows = reproduce("ecoact", episodes=40)["ours"]
    change = {
        row["group"]: row["cost_change"] for row in rows if row["agent"] == "react+ecoact" and row["protocol"] == "published"
    }
    assert list(change) == list(ecoact.PROTOCOLS[0].candidates)
    assert change["more than 20"] < -0.4 and change["more than 20"] < change["11 to 20"] < change["up to 10"]


@pytest.mark.slow
def test_deer_on_its_authors_samples(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    data = str(shared("data/toolbench_family/tooldeer"))
    rows = reproduce("deer", data=data, episodes=40, steps=2, models=("small",), out=tmp_path)["ours"]
    authors = {(row["split"], row["agent"]) for row in rows if row["protocol"] == "authors"}
    sets = ("valid", "test", "toolbench", "toolcorpus")
    assert {(name, agent) for name in sets for agent in ("deer-rule", "zoo:deer", "deer:small")} <= authors
    assert rows[0]["protocol"] == "authors"
    run = f"deer:{tmp_path / 'policies' / 'small'}"  # a finished run is scored as it is
    again = deer.authors_rows(Job(0, 40, 1, tmp_path / "again", data=data, models=(run,)))
    figures = [{name: row[name] for name in ("split", "p_ds", "p_dc") if name in row} for row in again if row["agent"] == run]
    trained = [row for row in rows if row["agent"] == "deer:small" and row["protocol"] == "authors"]
    assert figures == [{name: row[name] for name in ("split", "p_ds", "p_dc") if name in row} for row in trained]
    assert len(figures) == 4 and not (tmp_path / "again").exists()


def test_deers_claims_on_its_authors_samples_are_beside_the_printed_figures_and_about_the_best_on_valid() -> None:
    def row(split: str, agent: str, rate: float) -> Any:
        both = dict.fromkeys(("p_ds", "p_dc"), rate)
        return {"split": split, "agent": agent, **both, "ci95": {name: [rate - 0.02, rate + 0.02] for name in both}}

    sets = ("valid", "test", "toolbench", "toolcorpus")
    rows = [row(name, agent, rate) for name in sets for agent, rate in (("deer:small", 0.5), ("deer:minilm", 0.85))]
    effects = {effect["claim"]: effect for effect in deer.check_authors_claims([*rows, row("valid", "deer-rule", 0.99)])}
    assert len(effects) == 16 == len(counted(list(effects.values())))
    above = effects["toolcorpus: P_DC of the trained decider is above that of GPT-4, six shots"]
    assert (above["follows"], above["measured"]) == (False, "deer:minilm: +0.8 points [-1.2, +2.8]")
    assert above["levels"] == [84.2, 85.0] and above["paper"] == 6.3
    assert effects["toolbench: P_DC of the trained decider is above that of GPT-3.5, six shots"]["follows"]
    assert effects["P_DC on unseen tools is at most 5 points below that on seen ones"]["follows"]
    assert deer.check_authors_claims([row("valid", "deer-rule", 0.99)]) == []


def test_deers_claims_are_about_the_trained_decider_and_a_rule_is_no_claim_of_the_paper() -> None:
    names = ("deer-rule", "deer (gpt-4)", "deer (gpt-3.5-turbo)", "deer (llama2-13b-chat)", "zoo:deer")
    rates = {name: dict.fromkeys(("p_ds", "p_dc"), rate) for name, rate in zip(names, (0.9, 0.8, 0.6, 0.5, 0.9), strict=True)}
    rows = [
        {"split": split, "agent": name, **both, "ci95": {metric: [rate - 0.02, rate + 0.02] for metric, rate in both.items()}}
        for split in ("valid", "test")
        for name, both in rates.items()
    ]
    effects = {row["claim"]: row for row in deer.check_claims(rows)}
    assert len(effects) == 13 and len(counted(list(effects.values()))) == 10
    above = effects["unseen tools: P_DC of the trained decider is above that of GPT-4"]
    assert above["follows"] and above["measured"] == "+10.0 points [+7.2, +12.8]" and above["two_sided"] == "open"
    assert not effects["seen tools: P_DS is above a rule's"]["follows"]
    assert effects["P_DC on unseen tools is at most 5 points below that on seen ones"]["follows"]
    assert deer.check_claims([row for row in rows if row["agent"] != "zoo:deer"]) == []
