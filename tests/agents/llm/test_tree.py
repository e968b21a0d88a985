"""DFSDT and ToT-DFS: what is asked, what is called, where the search goes back to."""

import pytest

from costgym.agents import prompts
from costgym.agents.llm.session import LlmAgent
from costgym.agents.llm.strategies import Dfsdt, SearchSettings, TotDfs
from costgym.agents.models.base import VOTE
from costgym.simulators.errors import ConfigError
from tests.helpers.playing import calls, chat, play
from tests.helpers.scripted import Scripted
from tests.helpers.worlds import small_world, tool

GIVE_UP = ("finish", {"answer": "", "give_up": True})


def step(n):
    return ("map", {"city": f"s{n}"})


def run(strategy, *lines, votes=("A", "B"), **settings):
    env = chat(small_world(tool("map")), **settings)
    player = LlmAgent(Scripted(lines, votes=votes), strategy)
    play(env, player)
    return player, env


def path(messages):
    """The steps in a context."""
    return [call.arguments["city"] for m in messages for call in m.calls]


def test_giving_up_goes_back_past_the_parent():
    player, env = run(Dfsdt(), step(1), step(2), GIVE_UP, step(3), ("finish", {"answer": "fact-0"}))
    contexts = [path(messages) for _, messages, _ in player._model.heard]
    assert contexts == [[], ["s1"], ["s1", "s2"], ["s1"], ["s1", "s3"]]
    assert len(calls(env)) == 3  # all were executed; nothing is rolled back


def test_the_depth_limit_goes_back_to_the_parent():
    player, _ = run(Dfsdt(SearchSettings(depth=2)), *[step(n) for n in range(1, 8)])
    contexts = [path(messages) for _, messages, _ in player._model.heard]
    assert contexts == [[], ["s1"], ["s1"], [], ["s4"], ["s4"]]


def test_a_second_child_is_told_of_the_first_and_its_descendants_are_not():
    player, _ = run(Dfsdt(SearchSettings(depth=3)), step(1), step(2), step(3), step(4), "done")
    contents = [messages[-1].content for _, messages, _ in player._model.heard]
    assert contents[3].startswith(prompts.TRIED) and '\\"s3\\"' in contents[3]
    assert not any(m.content.startswith(prompts.TRIED) for _, messages, _ in player._model.heard[:3] for m in messages)


def test_an_answer_ends_the_search_wherever_it_is_found():
    player, env = run(Dfsdt(), step(1), step(2), step(3), ("finish", {"answer": "fact-0"}), step(9))
    assert len(player._model.heard) == 4 and env.episode.grade.strict


def test_a_tree_search_stops_at_its_query_cap_with_every_reply_used():
    player, env = run(Dfsdt(SearchSettings(queries=5)), *[step(n) for n in range(50)])
    assert len(player._model.heard) == 5 == len(calls(env))


def test_tree_of_thoughts_makes_both_children_then_follows_the_votes():
    player, env = run(TotDfs(), step(1), step(2), ("finish", {"answer": "fact-0"}), step(4), votes=("B", "A"))
    # "B" of (first, second) and "A" of (second, first): both for the second step
    purposes = [purpose for purpose, _, _ in player._model.heard]
    assert purposes[:4] == ["act", "act", VOTE, VOTE]
    assert path(player._model.heard[4][1]) == ["s2"]
    assert len(calls(env)) >= 2


def test_votes_that_cancel_out_keep_the_order():
    player, _ = run(TotDfs(), step(1), step(2), "done", votes=("A", "A"))
    assert path(player._model.heard[4][1]) == ["s1"]


def test_votes_are_paid_for_and_count_as_queries():
    player, env = run(TotDfs(SearchSettings(queries=4)), *[step(n) for n in range(20)])
    assert len(player._model.heard) == 4
    assert sum(charge.what == "think" for charge in env.episode.ledger) == 4
    assert len(calls(env)) == 2


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"width": -1}, {"queries": 1.5}, {"unit": "rounds"}, {"depth": True}])
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        SearchSettings(**wrong)


def test_presets_hold_the_published_limits():
    toolbench, tot, ecoact = SearchSettings.toolbench(), SearchSettings.btp(tree_of_thoughts=True), SearchSettings.ecoact()
    assert (toolbench.depth, toolbench.unit, toolbench.width, toolbench.queries) == (12, "nodes", 2, 200)
    assert (tot.depth, tot.queries, ecoact.depth) == (8, 30, 24)
