"""The papers' tables beside ours: rows of one shape, deterministic, with intervals; the effects that must follow."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from costgym import ConfigError, UnknownName
from costgym.agents import registry
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.models.simulated import read_rates
from costgym.agents.zoo.cards import zoo_folder
from costgym.experiments.papers import btp, deer, ecoact, toolplanner
from costgym.experiments.papers.btp import BUDGETS, CURVE_METRICS, THRESHOLDS, USES, Point, check_curves, play_point
from costgym.experiments.papers.claims import QUALITY_MARGIN, UNPUBLISHED, Printed, counted, effect, two_sided
from costgym.experiments.papers.deer import ACCURACIES
from costgym.experiments.papers.page import write_page
from costgym.experiments.papers.paper import PUBLISHED_ROWS, published
from costgym.experiments.papers.playing import enlarged
from costgym.experiments.papers.reproduce import PAPERS, reproduce
from costgym.experiments.papers.tables import effect_lines, notes, print_reproduction, tables, verdict
from costgym.experiments.papers.toolplanner import (
    AGENTS,
    Followed,
    difference_rows,
    follow,
    instruction_rows,
    of_group,
    tag_rows,
    wins,
)  # fmt: skip
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.scenario import load_scenario
from tests.helpers.shared_data import shared


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
def test_deer_seen_and_unseen_tools() -> None:
    found = reproduce("deer", episodes=200)
    assert found["paper"] == published("deer")
    assert {row["split"] for row in found["ours"]} == {"valid", "test"}
    for row in found["ours"]:
        assert row["episodes"] == 200
        for name in ACCURACIES:
            low, high = row["ci95"][name]
            assert low <= row[name] <= high
    assert reproduce("deer", episodes=200) == found


@pytest.mark.slow
def test_deer_on_recorded_samples() -> None:
    rows = reproduce("deer", data=str(shared("data/toolbench_family/tooldeer")))["ours"]
    rule = {row["split"]: row for row in rows if row["agent"] == "deer-rule"}
    assert rule["valid"]["episodes"] == 75 and rule["test"]["episodes"] == 80
    assert "p_no_search" not in rule["test"] and rule["valid"]["p_ds"] > 0.6


@pytest.mark.slow
def test_ecoact_saves_most_where_tools_are_many() -> None:
    rows = reproduce("ecoact", episodes=40)["ours"]
    change = {
        row["group"]: row["cost_change"] for row in rows if row["agent"] == "react+ecoact" and row["protocol"] == "published"
    }
    assert list(change) == list(ecoact.PROTOCOLS[0].candidates)
    assert change["more than 20"] < -0.4 and change["more than 20"] < change["11 to 20"] < change["up to 10"]


@pytest.mark.slow
def test_btp_never_overspends_and_costs_less() -> None:
    found = reproduce("btp", episodes=40, seed=3)
    for protocol in btp.PROTOCOLS:
        rows = {row["agent"]: row for row in found["ours"] if row["protocol"] == protocol.name}
        tables = [row["agent"] for row in found["paper"] if "group" not in row]
        assert [name for name in rows if name in tables] == tables
        for base in ("react", "dfsdt", "tot-dfs"):
            assert rows[f"{base}+btp"]["budget_failure_rate"] == 0.0 < rows[base]["budget_failure_rate"]
            assert rows[f"{base}+btp"]["average_cost"] < rows[base]["average_cost"]
            for used, planned in (("uses", "planned_uses"), ("used_cost", "planned_cost")):
                assert 0 < rows[f"{base}+btp"][used] <= rows[f"{base}+btp"][planned] and planned not in rows[base]
        assert rows["react"]["budget"] == {"price": 20.0} and "pass_rate" in rows["react"]["ci95"]


def test_a_run_that_is_kept_is_continued(tmp_path) -> None:
    first = reproduce("ecoact", episodes=4, out=tmp_path)
    steps: list[tuple[int, int]] = []
    assert reproduce("ecoact", episodes=4, out=tmp_path, progress=lambda done, total: steps.append((done, total))) == first
    assert steps == [(24, 24)] * 6


@pytest.mark.parametrize(
    "name", [pytest.param("btp", marks=pytest.mark.slow), pytest.param("toolplanner", marks=pytest.mark.slow)]
)
def test_a_run_that_was_stopped_plays_only_what_is_missing(name: str, tmp_path) -> None:
    small = {"episodes": 2, "out": tmp_path}
    first = reproduce(name, **small)
    kept = sorted(tmp_path.glob("board/**/*-*.jsonl"))
    kept = [path for path in kept if (path.parent / "run.json").exists()]
    before = {path: path.read_bytes() for path in kept}
    kept[3].unlink()
    steps: list[tuple[int, int]] = []
    assert reproduce(name, **small, jobs=2, progress=lambda *at: steps.append(at)) == first
    assert steps[-2:] == [(len(kept) - 1, len(kept)), (len(kept), len(kept))]
    assert {path: path.read_bytes() for path in kept} == before
    with pytest.raises(ConfigError, match="another run"):
        reproduce(name, **small, seed=1)


@pytest.fixture(scope="module")
def btp_run(tmp_path_factory) -> tuple[dict, object]:
    folder = tmp_path_factory.mktemp("btp")
    return reproduce("btp", episodes=6, seed=2, out=folder), folder


@pytest.mark.slow
def test_the_curves_hold_every_point_and_meet_the_table_at_the_papers_setting(btp_run) -> None:
    found, _ = btp_run
    bases = ("react", "dfsdt", "tot-dfs")
    for protocol in btp.PROTOCOLS:
        curves = {(row["agent"], row["curve"], row["at"]): row for row in found["curves"] if row["protocol"] == protocol.name}
        counts = {curve: sum(key[1] == curve for key in curves) for curve in ("R", "tau", "uses")}
        assert counts == {"R": 6 * len(BUDGETS), "tau": 3 * len(THRESHOLDS), "uses": 6 * (len(USES) + 1)}
        table = {row["agent"]: row for row in found["ours"] if row["protocol"] == protocol.name}
        for base in bases:
            same = [(base, "R", 20.0), *((f"{base}+btp", *at) for at in (("R", 20.0), ("tau", 0.15), ("uses", 40.0)))]
            for agent, curve, at in same:
                point = curves[agent, curve, at]
                assert all(point[name] == table[agent][name] for name in CURVE_METRICS)
            passes = [curves[base, "R", at]["judged_pass_rate_under_budget"] for at in BUDGETS]
            assert passes == sorted(passes)
            assert len({curves[base, "R", at]["average_cost"] for at in BUDGETS}) == 1
            assert all(curves[f"{base}+btp", "R", at]["budget_failure_rate"] == 0.0 for at in BUDGETS)


@pytest.mark.slow
def test_btp_is_compared_with_its_plain_form_at_three_budgets_pair_by_pair(btp_run) -> None:
    found, _ = btp_run
    table = {(row["protocol"], row["agent"]): row for row in found["ours"]}
    assert len(found["differences"]) == 2 * 3 * 3
    for row in found["differences"]:
        ours, base = row["agent"].split(" less ")
        for metric, (low, high) in row["ci95"].items():
            assert low <= row[metric] <= high
            if row["R"] == 20.0:
                there = table[row["protocol"], ours][metric] - table[row["protocol"], base][metric]
                assert row[metric] == pytest.approx(there, abs=1e-6)
    assert all(row["uses_per_tool"] == pytest.approx(40, abs=0.1) for row in found["experience"])


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
    found = toolplanner.PROTOCOLS[0].scenario(load_scenario("marketplace")).source.candidates
    assert found.k == 5 and found.retriever == "bm25"
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


@pytest.mark.slow
def test_a_point_played_again_gives_the_leaderboards_episodes(btp_run) -> None:
    _, folder = btp_run
    for protocol in btp.PROTOCOLS:
        place = folder / protocol.name
        document = protocol.scenario(enlarged(load_scenario("marketplace"), 6)).model_dump_json()
        point = Point("dfsdt+btp", "R", 20.0, str(place / "experience.jsonl"))
        again = [EpisodeResult.from_json(line) for line in play_point((document, protocol, 6, 2), point)]
        kept = [EpisodeResult.from_json(line) for line in (place / "btp" / "episodes.jsonl").read_text().splitlines()]
        assert again == [result for result in kept if result.agent == "dfsdt+btp"]


@pytest.mark.slow
def test_every_effect_is_said_to_follow_or_not_and_the_page_says_it_too(btp_run, tmp_path) -> None:
    found, _ = btp_run
    effects = found["effects"]
    assert {row["grading"] for row in effects} == {"", "judge", "strict"}
    assert all(isinstance(row["follows"], bool) and row["measured"] for row in effects)
    path = write_page(btp.PAPER, found, tmp_path, "costgym reproduce btp")
    text = path.read_text()
    failing = [row for row in effects if not row["by_construction"] and not row["follows"]]
    assert text.count("DOES NOT FOLLOW") == len(failing)
    assert text.count("by construction |") == sum(row["by_construction"] for row in effects) > 0
    assert verdict(effects) in text and "simulated" in text and "40 a tool" in text
    for file in ("btp.svg", "btp-board.svg"):
        assert file in text
        ElementTree.fromstring((tmp_path / file).read_text())
    check_that_all_is_read_in_80_columns("btp", found)
    console = Console(file=io.StringIO(), width=200)
    print_reproduction(btp.PAPER, found, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "published" in shown and "by construction" in shown
    assert {title for title, _, _ in tables(btp.PAPER, found)} == {
        f"btp: {side}" for side in ("paper", "ours", "differences", "curves")
    }


@pytest.mark.slow
def test_effects_by_construction_say_why_and_are_counted_nowhere(btp_run) -> None:
    effects = btp_run[0]["effects"]
    built = [row for row in effects if row["by_construction"]]
    assert all(row["reason"] for row in built)
    assert {row["claim"] for row in built} == {
        text
        for base in ("react", "dfsdt", "tot-dfs")
        for text in (f"{base}: with BTP no query fails because of the budget", f"{base}: +Prompt changes PBC by under 3 points")
    }
    assert len(counted(effects)) == len(effects) - len(built)
    rows = [
        {"claim": "a", "follows": True, "by_construction": True, "source": "Table 1"},
        {"claim": "b", "follows": False, "by_construction": False, "source": UNPUBLISHED},
        {"claim": "c", "follows": False, "by_construction": False, "source": "Table 1"},
    ]
    assert verdict(rows).startswith("0 of 1 effects follow; 1 do not")


def test_an_effect_that_is_not_there_is_not_seen() -> None:
    curves = [
        {"agent": "react+btp", "curve": curve, "at": at, "judged_pass_rate_under_budget": value, "average_cost": value}
        for curve, ats in (("R", (5.0, 20.0)), ("tau", (0.0, 0.15, 0.5)))
        for at, value in zip(ats, (0.5, 0.4, 0.5), strict=False)
    ]
    follows = [row["follows"] for row in check_curves(curves, ["react+btp"], "judged_pass_rate_under_budget", "judge")]
    assert follows == [False, False, False]


def test_enough_tasks_are_made_for_every_episode_to_have_its_own() -> None:
    assert len(enlarged(load_scenario("marketplace"), 450).build().tasks.numbers("test")) == 450
    assert enlarged(load_scenario("marketplace"), 10) == load_scenario("marketplace")


def test_ecoacts_chains_may_be_twice_as_long(tmp_path) -> None:
    found = reproduce("ecoact", episodes=3, out=tmp_path)
    rows = found["ours"]
    assert json.loads((tmp_path / "board" / "ecoact-0" / "run.json").read_text())["search"] == {"depth": 24}
    published = json.loads((tmp_path / "published" / "ecoact-0" / "run.json").read_text())["search"]
    assert (published["depth"], published["unit"]) == (24, "nodes")
    shares = {
        row["agent"]: row["registered_share"]
        for row in rows
        if (row["protocol"], row["group"]) == ("board", "more than 20") and "registered_share" in row
    }
    assert 0 < shares["react+ecoact"] < shares["react+ecoact-several"] < 1
    steps = [row["registered_share"] for row in found["curves"] if (row["protocol"], row["agent"]) == ("board", "react+ecoact")]
    assert len(steps) == 24 and steps == sorted(steps) and steps[-1] == shares["react+ecoact"]
    path = write_page(ecoact.PAPER, found, tmp_path, "")
    for file in ("ecoact.svg", "ecoact-beside.svg"):
        assert file in path.read_text()
        ElementTree.fromstring((tmp_path / file).read_text())
    cost = {row["claim"]: row for row in found["effects"] if row["protocol"] == "published"}
    cheaper = cost["react, more than 20 tools: EcoAct costs at least 45 % less"]
    assert cheaper["paper"] == -54.0 and cheaper["here"][0] == pytest.approx(cheaper["paper"] + cheaper["distance"], abs=0.1)


def followed_at(*names: tuple[str, int], episodes: int = 60) -> dict:
    """Episodes of some agents at two levels, in the form that the tables read."""
    return {
        (name, level, luck): follow(name, level, episodes, luck=luck) for level in ("tool", "hybrid") for name, luck in names
    }


@pytest.mark.slow
def test_match_rises_most_where_tags_are_used() -> None:
    rows = instruction_rows(followed_at(("dfsdt", 1), *((name, 0) for name in AGENTS)))
    match = {(row["agent"], row["level"]): row["match_rate"] for row in rows}
    for level in ("tool", "hybrid"):
        plain, full = match["dfsdt", level], match["toolplanner", level]
        assert full > plain + 0.2
        assert match["toolplanner-no-path", level] - plain > match["toolplanner-no-tags", level] - plain
    for row in rows:
        assert all(low <= row[key] <= high for key, (low, high) in row["ci95"].items() if isinstance(row.get(key), float))


def test_extracted_tags_beat_the_retriever_where_names_are_given() -> None:
    kept = followed_at(("toolplanner-no-path", 0))
    f1 = {(row["agent"], row["level"]): row["tag_f1"] for row in tag_rows(kept, load_scenario("marketplace"))}
    for level in ("tool", "hybrid"):
        assert f1["tag extraction", level] > max(f1[f"retriever@{count}", level] for count in (1, 3, 5))


def test_winning_is_antisymmetric() -> None:
    ours, theirs = follow("toolplanner", "tool", 25), follow("dfsdt", "tool", 25)
    assert all(wins(a, b) + wins(b, a) == 1.0 for a, b in zip(ours, theirs, strict=True))
    assert {wins(a, a) for a in ours} == {0.5}


def test_a_trained_planner_plays_with_its_own_model_whatever_its_name() -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    shipped = follow("zoo:toolplanner", "tool", 2)
    by_folder = follow(f"toolplanner:{zoo_folder('zoo:toolplanner')}", "tool", 2)
    simulated = follow("toolplanner", "tool", 2)
    assert {found.result.model for found in shipped} == {"zoo:toolplanner"}
    assert [found.tags for found in shipped] == [found.tags for found in by_folder] != [found.tags for found in simulated]
    assert [found.result.calls for found in shipped] == [found.result.calls for found in by_folder]
    with pytest.raises(ConfigError, match="language model"):
        follow("cheapest", "tool", 1)


def followed(matched: list[bool], meaningful: bool = True) -> list[Followed]:
    result = follow("dfsdt", "tool", 1)[0].result
    return [Followed(replace(result, episode=n, price=n), flag, meaningful, 0.0, None) for n, flag in enumerate(matched)]


def test_toolplanners_claims_follow_where_the_paired_interval_excludes_zero() -> None:
    plain, often, always = ([n % every == 0 for n in range(24)] for every in (4, 3, 1))
    agents = {"dfsdt": plain, "toolplanner": always, "toolplanner-no-path": often, "toolplanner-no-tags": plain}
    kept = {(name, level, 0): followed(flags) for name, flags in agents.items() for level in ("statement", "tool")}
    kept |= {("dfsdt", level, 1): followed(plain) for level in ("statement", "tool")}
    tags = [{"level": "tool", "agent": name, "tag_f1": f1} for name, f1 in (("retriever@3", 0.5), ("tag extraction", 0.9))]
    effects = {(row["claim"] + row["grading"]): row for row in toolplanner.check_claims(difference_rows(kept), tags)}
    assert len(effects) == 7 + 2 * 2 and "statement: Match rises" not in effects
    rises, more = effects["tool: Match rises"], effects["tool: tags raise Match more than paths"]
    assert rises["follows"] and rises["measured"].startswith("+75.0 points [")
    assert more["measured"].startswith("+8.3 points [-") and not more["follows"]
    assert not effects["tool: Pass rises"]["follows"] and not effects["tool: Win rises"]["follows"]
    assert effects["tool: at most 3 points fewer facts foundjudge"]["follows"]
    assert effects["tool: extracted tags beat the best retriever"]["by_construction"]
    assert len(counted(list(effects.values()))) == 6


@pytest.mark.parametrize("name", ["deer", pytest.param("toolplanner", marks=pytest.mark.slow)])
def test_a_trained_row_stands_beside_the_simulated_ones_where_torch_is_there(name: str, monkeypatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(registry, "find_spec", lambda module: None)
        found = reproduce(name, episodes=4)
    assert not any("zoo:" in row["agent"] for row in found["ours"])
    assert f"The row of zoo:{name} is left out" in notes(PAPERS[name], found)
    pytest.importorskip("torch", reason="the train extra is not installed")
    more = reproduce(name, episodes=4)
    assert [row for row in more["ours"] if "zoo:" not in row["agent"]] == found["ours"]
    assert {row["model"] for row in more["ours"] if row["agent"] == f"zoo:{name}"} == {
        "small" if name == "deer" else "zoo:toolplanner"
    }
    assert "left out: it needs" not in notes(PAPERS[name], more)


def check_that_all_is_read_in_80_columns(name: str, found: dict) -> None:
    console = Console(file=io.StringIO(), width=80)
    print_reproduction(PAPERS[name], found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert "Intervals: on the page" in text
    for _, headings, lines in tables(PAPERS[name], found):
        at = headings.index("agent")
        assert all(word in text for heading in headings[at:] for word in heading.split())
        assert all(line[at] in text or line[at][:14] in text for line in lines)  # a long name is folded


@pytest.mark.parametrize("name", ["deer", pytest.param("toolplanner", marks=pytest.mark.slow)])
def test_both_tables_are_printed_with_their_sources(name: str) -> None:
    found = reproduce(name, episodes=8)
    console = Console(file=io.StringIO(), width=200)
    print_reproduction(PAPERS[name], found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    check_that_all_is_read_in_80_columns(name, found)
    assert f"{name}: paper" in text and f"{name}: ours" in text and "source:" in text and "simulated" in text and "[" in text


def test_what_cannot_be_reproduced_is_a_clear_error() -> None:
    with pytest.raises(UnknownName, match="ecoact"):
        reproduce("eco")
    with pytest.raises(ConfigError, match="episodes"):
        reproduce("btp", episodes=0)
    with pytest.raises(ConfigError, match="deer"):
        reproduce("btp", data="x")


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


def test_toolplanner_is_played_on_tasks_across_categories_alone() -> None:
    world = load_scenario("marketplace").build()
    numbers = of_group(world, world.tasks.numbers("test"), 12)
    assert len(numbers) == 12 and {world.tasks[number].group for number in numbers} == {"G3"}
