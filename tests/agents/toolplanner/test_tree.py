"""Solution trees: rewards of solutions and rounds, and the pairs for ranking.

The world is the paper's own example (Figure 5): tools A and B with APIs A1 to B3, and a foreign tool C; the instruction
names A and B.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.agents.toolplanner.tree import (
    EARLY_ANSWER,
    GIVE_UP,
    OTHER_TOOL,
    Round,
    called_tools,
    extract_pairs,
    final_solution,
    match,
    passed,
    reward_of,
    score,
    solution_reward,
    solutions,
)
from costgym.simulators.tools import Catalog, Tool

NAMES = ("A1", "A2", "A3", "B1", "B2", "B3", "C1", "C2")
APIS = {name: Tool(name, name, "Travel" if name[0] != "C" else "Food", name[0], name) for name in NAMES}
CATALOG = Catalog(APIS.values())
GOLD = (APIS["A1"], APIS["B1"])


def call(name: str, *children: Round) -> Round:
    return Round(tools=(name,), children=list(children), end="" if children else "cut")


def done(answer: str = "It is sunny.") -> Round:
    return Round(end="answer", answer=answer)


def stop() -> Round:
    return Round(end="give_up")


def test_the_reward_of_a_solution() -> None:
    rewards = {
        1: [call("A1"), call("B2"), done()],
        -1: [call("A1"), call("B2"), stop()],
        -2: [call("A1"), call("C1"), done()],
        -3: [call("A1"), call("A2"), stop()],
    }
    assert {reward_of(path, GOLD, "tool", CATALOG) for path in rewards.values()} == set(rewards)
    assert all(reward_of(path, GOLD, "tool", CATALOG) == reward for reward, path in rewards.items())
    assert reward_of([call("A1"), call("B2"), done()], GOLD, "api", CATALOG) == -2
    assert reward_of([call("A1"), call("B1"), call("A1"), done()], GOLD, "hybrid", CATALOG) == 1
    assert reward_of([call("A1"), call("B1"), done("Sorry, nothing found.")], GOLD, "api", CATALOG) == -1
    assert reward_of([done()], GOLD, "statement", CATALOG) == 1


def figure_five() -> list[Round]:
    """S8 = A1, B2, B3, answer; beside it A3 after B3, C2 beside B3, and A2, C1, A3 beside B2."""
    return [
        call(
            "A1",
            call("A2", stop()),
            call("C1", stop()),
            call("A3", stop()),
            call("B2", call("C2", stop()), call("B3", call("A3", stop()), done())),
        )
    ]


def test_a_round_is_worth_the_best_solution_through_it() -> None:
    tree = figure_five()
    assert score(tree, GOLD, "tool", CATALOG) == 1
    after_a1 = tree[0].children
    assert [step.reward for step in (tree[0], *after_a1)] == [1, -3, -3, -3, 1]
    assert [step.reward for step in after_a1[3].children] == [-3, 1]
    # A1, B2, B3, A3 and a give-up calls both tools and no other: a match that does not pass
    assert [step.reward for step in after_a1[3].children[1].children] == [-1, 1]


def test_pairs_share_their_history_and_made_up_ones_fill_the_gaps() -> None:
    tree = figure_five()
    score(tree, GOLD, "tool", CATALOG)
    pairs = extract_pairs(tree, GOLD, "tool", CATALOG, seed=0, others=[APIS["C1"], APIS["A1"]])
    histories = ["".join(name for step in pair.history for name in step.tools) for pair in pairs]
    summaries = [(h, p.better.tools or p.better.end, p.worse.tools, p.made) for h, p in zip(histories, pairs, strict=True)]
    assert summaries[1:] == [
        ("A1", ("B2",), ("A2",), ""),
        ("A1", ("B2",), ("C1",), ""),
        ("A1", ("B2",), ("A3",), ""),
        ("A1B2", ("B3",), ("C2",), ""),
        ("A1B2B3", "answer", ("A3",), ""),
    ]
    assert summaries[0][:2] == ("", ("A1",)) and summaries[0][3] in {GIVE_UP, OTHER_TOOL, EARLY_ANSWER}


def test_all_three_kinds_are_made_up_and_each_is_negative() -> None:
    made: dict[str, Round] = {}
    for seed in range(40):
        tree = [call("A1", call("B1", done()))]
        score(tree, GOLD, "api", CATALOG)
        for pair in extract_pairs(tree, GOLD, "api", CATALOG, seed, others=list(APIS.values())):
            made.setdefault(pair.made, pair.worse)
            if pair.made == EARLY_ANSWER:
                # an answer too early: what was called so far does not match
                assert not match(called_tools(pair.history, CATALOG), GOLD, "api")
            if pair.made == OTHER_TOOL:
                assert pair.worse.tools[0] not in ("A1", "B1")
    assert set(made) == {GIVE_UP, OTHER_TOOL, EARLY_ANSWER}
    assert made[GIVE_UP].end == "give_up" and made[EARLY_ANSWER].end == "answer"
    assert all(step.reward is not None and step.reward < 0 for step in made.values())
    calls_by_kind = {kind: step.messages[0].calls[0] for kind, step in made.items()}
    assert calls_by_kind[GIVE_UP][:3] == ("finish", {"answer": "", "give_up": True}, "")
    assert calls_by_kind[OTHER_TOOL].name == made[OTHER_TOOL].tools[0] and calls_by_kind[EARLY_ANSWER].name == "finish"


def test_without_a_solution_of_reward_one_there_are_no_pairs() -> None:
    tree = [call("A1", call("C1", done()))]
    assert score(tree, GOLD, "tool", CATALOG) == -2
    assert extract_pairs(tree, GOLD, "tool", CATALOG, 0, list(APIS.values())) == []


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> list[Round]:
    siblings = []
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(st.sampled_from(["call", "call", "call", "answer", "give_up"])) if depth > 1 else "answer"
        if kind == "call":
            siblings.append(call(draw(st.sampled_from(sorted(APIS))), *draw(trees(depth=depth - 1))))
        else:
            siblings.append(done() if kind == "answer" else stop())
    return siblings


@given(tree=trees(), level=st.sampled_from(["statement", "category", "tool", "api", "hybrid"]), seed=st.integers(0, 99))
def test_rewards_and_pairs_of_any_tree(tree: list[Round], level: str, seed: int) -> None:
    best = score(tree, GOLD, level, CATALOG)
    paths = list(solutions(tree))
    assert best == max(reward_of(path, GOLD, level, CATALOG) for path in paths)
    assert final_solution(tree) == paths[-1]
    for path in paths:
        assert all(step.reward is not None and step.reward >= reward_of(path, GOLD, level, CATALOG) for step in path)
    pairs = extract_pairs(tree, GOLD, level, CATALOG, seed, list(APIS.values()))
    positive = {id(step) for path in paths for step in path if step.reward == 1}
    assert {id(pair.better) for pair in pairs} == positive
    for pair in pairs:
        assert pair.worse.reward is not None and pair.worse.reward < 0
        siblings = pair.history[-1].children if pair.history else tree
        assert pair.better in siblings and ((pair.worse in siblings) == (pair.made == ""))


@pytest.mark.parametrize(
    ("works", "follows", "reward"), [(True, True, 1), (False, True, -1), (True, False, -2), (False, False, -3)]
)
def test_the_papers_four_rewards(works: bool, follows: bool, reward: int) -> None:
    assert solution_reward(works, follows) == reward


def test_what_makes_an_answer_meaningful() -> None:
    assert passed("It is 12 degrees.")
    assert not any(passed(answer) for answer in (None, "", "  ", "I apologize.", "UNFORTUNATELY not", "I couldn’t find it"))
