"""DEER's samples: their shares, their candidates, and that no single word gives a kind away."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym import ConfigError, UnknownName
from costgym.simulators.decision.conversation import general_query
from costgym.simulators.decision.samples import CALL, COUNTS, NO_CALL, NO_SEARCH, SampleWriter, decision_world, split_tools
from costgym.simulators.decision.toolsets import INTER, INTRA, NEAREST, RANDOM, STRATEGIES, CandidateSampler, mixture_cycle
from costgym.simulators.marketplace.tasks import Luck
from costgym.simulators.retrieval.embedding import content_words, k_means
from costgym.simulators.scenario import load_scenario
from costgym.simulators.tools import Tool


@pytest.fixture(scope="module")
def writer() -> SampleWriter:
    return decision_world(load_scenario("decision").build(), 0)[1]


def tool(number: int, words: str, capability: str = "") -> Tool:
    return Tool(f"tool_{number}", words, "C", "P", capability=capability)


def test_kinds_have_exactly_the_papers_counts(writer: SampleWriter) -> None:
    kinds = Counter(writer.sample("valid", index).kind for index in range(sum(COUNTS["valid"])))
    assert kinds == {NO_SEARCH: 193, NO_CALL: 346, CALL: 526}


def test_the_mixture_is_two_to_one_to_two_in_every_round_of_either_kind(writer: SampleWriter) -> None:
    cases = [writer.sample("valid", index) for index in range(sum(COUNTS["valid"]))]
    for kind in (NO_CALL, CALL):
        strategies = [case.strategy for case in cases if case.kind == kind]
        rounds = [Counter(strategies[i : i + 5]) for i in range(0, len(strategies) - 4, 5)]
        assert len(rounds) > 60
        assert all(count == {RANDOM: 2, INTRA: 1, INTER: 2} for count in rounds)


def test_the_right_tool_is_there_for_call_and_not_for_nocall(writer: SampleWriter) -> None:
    tools = {tool.name: tool for tool in (*writer.seen, *writer.unseen)}
    for split in ("train", "test"):
        for index in range(300):
            case = writer.sample(split, index)
            assert len(set(case.candidates)) == 5
            if case.kind == NO_SEARCH:
                continue
            able = [name for name in case.candidates if tools[name].capability == tools[case.gold].capability]
            assert able == ([case.gold] if case.kind == CALL else [])


def test_seen_and_unseen_tools_share_no_capability(writer: SampleWriter) -> None:
    assert (len(writer.seen), len(writer.unseen)) == (900, 77)
    assert not {t.capability for t in writer.seen} & {t.capability for t in writer.unseen}
    unseen = {t.name for t in writer.unseen}
    assert all(set(writer.sample("test", index).candidates) <= unseen for index in range(100))
    assert not any(set(writer.sample("train", index).candidates) & unseen for index in range(300))


def test_fewer_tools_keep_the_proportion() -> None:
    seen, unseen = split_tools(0, [tool(i, "x") for i in range(100)], 900, 77)
    assert (len(seen), len(unseen)) == (92, 7)


def test_inter_class_candidates_come_from_different_clusters(writer: SampleWriter) -> None:
    sampler = writer.sampler("train")
    for number in range(200):
        luck = Luck("test", number, seed=1)
        gold = sampler.pool[luck.below(900)].name
        for with_gold in (True, False):
            drawn = sampler.draw(INTER, gold, with_gold, luck)
            assert len({sampler.cluster(tool.name) for tool in drawn}) == 5
            assert (gold in {tool.name for tool in drawn}) is with_gold


def test_intra_class_candidates_come_from_the_right_tools_cluster_as_far_as_it_goes(writer: SampleWriter) -> None:
    sampler = writer.sampler("train")
    for number in range(200):
        luck = Luck("test", number, seed=2)
        gold = sampler.pool[luck.below(900)]
        home = sampler.cluster(gold.name)
        others = [sampler.pool[i] for i in sampler.members[home] if sampler.pool[i].capability != gold.capability]
        drawn = sampler.draw(INTRA, gold.name, True, luck)
        assert sum(sampler.cluster(tool.name) == home for tool in drawn) == 1 + min(4, len(others))


def test_a_cluster_that_is_too_small_ends_with_the_nearest_ones_and_never_loops() -> None:
    pool = [tool(0, "rain today"), tool(1, "rain tomorrow")] + [tool(i, f"stock price of share {i}") for i in range(2, 9)]
    sampler = CandidateSampler(pool, size=5, clusters=2)
    for with_gold in (True, False):
        drawn = sampler.draw(INTRA, "tool_0", with_gold, Luck("x", seed=0))
        assert len(drawn) == 5 and ("tool_1" in {t.name for t in drawn})
        assert ("tool_0" in {t.name for t in drawn}) is with_gold


def test_the_nearest_candidates_are_most_alike_and_of_different_facts() -> None:
    pool = [tool(0, "rain in a city today"), tool(1, "rain in a city tomorrow"), tool(2, "rain in a city tomorrow", "later")]
    pool += [tool(3, "rain in a city tomorrow", "later"), tool(4, "rain in a town"), tool(5, "price of a share")]
    sampler = CandidateSampler(pool, size=3, clusters=2)
    assert {t.name for t in sampler.draw(NEAREST, "tool_0", True, Luck("x", seed=0))} == {"tool_0", "tool_1", "tool_2"}
    assert {t.name for t in sampler.draw(NEAREST, "tool_0", False, Luck("x", seed=0))} == {"tool_1", "tool_2", "tool_4"}


def test_too_few_clusters_go_on_at_random() -> None:
    pool = [tool(i, f"share {i}") for i in range(8)]
    drawn = CandidateSampler(pool, size=5, clusters=2).draw(INTER, "tool_0", True, Luck("x", seed=0))
    assert len({t.name for t in drawn}) == 5


def test_a_pool_in_which_too_much_fits_is_a_clear_error() -> None:
    pool = [tool(i, "rain", capability="rain") for i in range(6)] + [tool(6, "snow")]
    sampler = CandidateSampler(pool, size=3, clusters=2)
    for strategy in STRATEGIES:
        with pytest.raises(ConfigError, match="tool_0"):
            sampler.draw(strategy, "tool_0", False, Luck("x", seed=0))
    with pytest.raises(ConfigError, match="pool"):
        CandidateSampler(pool, size=7)
    with pytest.raises(UnknownName, match="intra-class"):
        sampler.draw("intraclass", "tool_6", True, Luck("x", seed=0))


@given(random=st.integers(0, 5), intra=st.integers(0, 5), inter=st.integers(1, 5))
def test_a_cycle_holds_each_strategy_as_often_as_its_parts_say(random: int, intra: int, inter: int) -> None:
    cycle = Counter(mixture_cycle({RANDOM: random, INTRA: intra, INTER: inter}))
    assert cycle == +Counter({RANDOM: random, INTRA: intra, INTER: inter})


def test_no_single_word_tells_queries_apart(writer: SampleWriter) -> None:
    cases = [writer.sample("train", index) for index in range(4000)]
    words: dict[str, Counter[bool]] = {}
    totals = Counter(case.kind == NO_SEARCH for case in cases)
    for case in cases:
        for word in set(content_words(case.query)):
            words.setdefault(word, Counter())[case.kind == NO_SEARCH] += 1
    balanced = {
        word: abs(Fraction(n[True], totals[True]) - Fraction(n[False], totals[False])) / 2 + Fraction(1, 2)
        for word, n in words.items()
    }
    best = max(balanced, key=lambda word: balanced[word])
    assert balanced[best] < 0.8, best


def test_general_queries_are_many() -> None:
    queries = {general_query(Luck("chat", number, seed=0)) for number in range(3000)}
    assert len(queries) > 2400
    assert not any("{" in query for query in queries)


def test_samples_depend_on_their_place_alone(writer: SampleWriter) -> None:
    other = decision_world(load_scenario("decision").build(), 0)[1]
    backwards = [other.sample("train", index) for index in reversed(range(50))]
    assert [writer.sample("train", index) for index in range(50)] == backwards[::-1]


@given(st.integers(0, 2**20), st.integers(1, 12), st.integers(1, 30))
def test_k_means_leaves_no_cluster_empty(seed: int, clusters: int, count: int) -> None:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    labels = k_means(points, clusters, seed=seed % 7)
    assert sorted(set(labels.tolist())) == list(range(min(clusters, count)))
    assert np.array_equal(labels, k_means(points, clusters, seed=seed % 7))


def test_k_means_finds_clusters_that_are_there() -> None:
    points = np.concatenate([np.random.default_rng(0).normal(c, 0.1, (20, 2)) for c in ((0, 0), (5, 5), (0, 9))])
    labels = k_means(points, 3)
    assert [len(set(labels[i : i + 20].tolist())) for i in (0, 20, 40)] == [1, 1, 1]
    assert len(set(labels[::20].tolist())) == 3
