"""ToolPlanner's tables: Match, Pass, Win, tags, and the claims about them."""

from dataclasses import replace

import pytest

from costgym import ConfigError
from costgym.agents.zoo.cards import zoo_folder
from costgym.experiments.papers.claims import counted
from costgym.experiments.papers.reproduce import reproduce
from costgym.experiments.papers.toolplanner import (
    AGENTS,
    Followed,
    check_claims,
    difference_rows,
    follow,
    instruction_rows,
    of_group,
    tag_rows,
    wins,
)
from costgym.simulators.scenario import load_scenario


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
    named = followed_at(("toolplanner-no-path", 0))
    f1 = {(row["agent"], row["level"]): row["tag_f1"] for row in tag_rows(named, load_scenario("marketplace"))}
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
    assert {play.result.model for play in shipped} == {"zoo:toolplanner"}
    assert [play.tags for play in shipped] == [play.tags for play in by_folder] != [play.tags for play in simulated]
    assert [play.result.calls for play in shipped] == [play.result.calls for play in by_folder]
    with pytest.raises(ConfigError, match="language model"):
        follow("cheapest", "tool", 1)


def followed(matched: list[bool], meaningful: bool = True) -> list[Followed]:
    result = follow("dfsdt", "tool", 1)[0].result
    return [Followed(replace(result, episode=n, price=n), flag, meaningful, 0.0, None) for n, flag in enumerate(matched)]


def test_toolplanners_claims_follow_where_the_paired_interval_excludes_zero() -> None:
    plain, often, always = ([n % every == 0 for n in range(24)] for every in (4, 3, 1))
    agents = {"dfsdt": plain, "toolplanner": always, "toolplanner-no-path": often, "toolplanner-no-tags": plain}
    shares = {(name, level, 0): followed(flags) for name, flags in agents.items() for level in ("statement", "tool")}
    shares |= {("dfsdt", level, 1): followed(plain) for level in ("statement", "tool")}
    tags = [{"level": "tool", "agent": name, "tag_f1": f1} for name, f1 in (("retriever@3", 0.5), ("tag extraction", 0.9))]
    effects = {(row["claim"] + row["grading"]): row for row in check_claims(difference_rows(shares), tags)}
    assert len(effects) == 7 + 2 * 2 and "statement: Match rises" not in effects
    rises, more = effects["tool: Match rises"], effects["tool: tags raise Match more than paths"]
    assert rises["follows"] and rises["measured"].startswith("+75.0 points [")
    assert more["measured"].startswith("+8.3 points [-") and not more["follows"]
    assert not effects["tool: Pass rises"]["follows"] and not effects["tool: Win rises"]["follows"]
    assert effects["tool: at most 3 points fewer facts foundjudge"]["follows"]
    assert effects["tool: extracted tags beat the best retriever"]["by_construction"]
    assert len(counted(list(effects.values()))) == 6


def test_a_learnt_planner_has_the_claims_on_match_pass_and_win() -> None:
    plain, always = ([n % every == 0 for n in range(24)] for every in (4, 1))
    agents = dict.fromkeys(("dfsdt", "toolplanner", "toolplanner-no-path", "toolplanner-no-tags"), plain)
    shares = {(name, "tool", 0): followed(flags) for name, flags in {**agents, "toolplanner:RUN": always}.items()}
    differences = difference_rows({**shares, ("dfsdt", "tool", 1): followed(plain)})
    tags = [{"level": "tool", "agent": name, "tag_f1": 0.5} for name in ("retriever@3", "tag extraction")]
    claims = {row["claim"]: row["follows"] for row in check_claims(differences, tags, ["toolplanner:RUN"])}
    learnt = {claim: follows for claim, follows in claims.items() if claim.startswith("toolplanner:RUN, tool: ")}
    assert list(learnt.values()) == [True, False, False] and not claims["tool: Match rises"]


@pytest.mark.slow
def test_a_learnt_planner_is_played_under_the_published_protocol() -> None:
    pytest.importorskip("torch", reason="the train extra is not installed")
    learnt = f"toolplanner:{zoo_folder('zoo:toolplanner')}"
    tables = reproduce("toolplanner", episodes=2, models=(learnt,))
    played = {(row["agent"], row["protocol"], row["level"]) for row in tables["ours"] if row["agent"] == learnt}
    assert {protocol for _, protocol, _ in played} == {"published"} and len(played) == 5
    claims = [row["claim"] for row in tables["effects"] if row["claim"].startswith(learnt)]
    assert len(claims) == 14
    by_name = {
        row["level"]: row for row in tables["ours"] if row["agent"] == "zoo:toolplanner" and row["protocol"] == "published"
    }
    for row in tables["ours"]:
        if row["agent"] == learnt:
            assert row["meaningful_rate"] == by_name[row["level"]]["meaningful_rate"]


def test_only_runs_are_played_beside_the_simulated_planners() -> None:
    with pytest.raises(ConfigError, match=r"expected toolplanner:RUN .* got 'smollm2'"):
        reproduce("toolplanner", models=("smollm2",))


def test_toolplanner_is_played_on_tasks_across_categories_alone() -> None:
    world = load_scenario("marketplace").build()
    numbers = of_group(world, world.tasks.numbers("test"), 12)
    assert len(numbers) == 12 and {world.tasks[number].group for number in numbers} == {"G3"}
