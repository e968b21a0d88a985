"""Tools on offer that a retriever finds in the whole catalogue, and the episodes that grow by searching."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from costgym.simulators.errors import DataError
from costgym.simulators.retrieval.ranking import Bm25, Cosine, word_embedding
from costgym.simulators.retrieval.sentences import has_minilm, sentence_embedding
from costgym.simulators.scenario import load_scenario, parse_scenario
from costgym.simulators.tasks import Need, Task

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "retrieval.py"
SMALL = {"kind": "marketplace", "tools": 120, "providers": 24, "categories": 6, "train": 20, "test": 20}


def world(retriever: str = "bm25", k: int = 5, **more: Any) -> Any:
    candidates = {"from": "catalogue", "retriever": retriever, "k": k}
    return parse_scenario({"name": "open", "source": {**SMALL, "candidates": candidates}, **more}).build()


def test_bm25_weighs_rare_words_and_short_documents() -> None:
    ranking = Bm25(["price of books", "price of a very long story about rivers and trees", "tide of rivers"])
    scores = ranking.scores("river prices")
    assert scores.argmax() == 1  # both words; plurals do not matter
    assert ranking.scores("books")[0] > ranking.scores("of")[0] > 0.0
    assert ranking.scores("tide")[2] > ranking.scores("story")[1]  # equally rare, in a shorter text
    assert not ranking.scores("nothing known").any()


def test_a_task_offers_what_its_query_finds_and_is_otherwise_the_same() -> None:
    listed = parse_scenario({"name": "listed", "source": SMALL}).build()
    episode_world = world(k=5)
    for number in range(40):
        task, plain = episode_world.tasks[number], listed.tasks[number]
        assert (task.query, task.needs, task.solvable) == (plain.query, plain.needs, plain.solvable)
        assert len(task.candidates) == 5 == episode_world.tasks.most_candidates
        best = episode_world.retriever.rank(task.query, task)
        assert task.candidates == tuple(episode_world.catalog[n].name for n in best[:5])


def test_the_oracle_puts_serving_tools_first_in_turns() -> None:
    episode_world = world("oracle", k=4)
    for number in range(20):
        task = episode_world.tasks[number]
        if len(task.needs) == 2 and all(len(need.tools) >= 2 for need in task.needs):
            serves = [next(i for i, need in enumerate(task.needs) if name in need.tools) for name in task.candidates]
            assert serves in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_a_search_brings_the_next_tools_and_keeps_to_a_category() -> None:
    retriever = world(k=3).retriever
    order = retriever.rank("current temperature", None)
    names = [retriever._catalog[n].name for n in order]
    assert retriever.search("current temperature", None, frozenset(names[:3])) == tuple(order[3:6])
    category = retriever.categories[0]
    inside = retriever.rank("current temperature", None, category.replace("_", " ").lower())
    assert inside and {retriever._catalog[n].category for n in inside} == {category}
    provider = retriever._catalog[inside[0]].provider
    assert {retriever._catalog[n].provider for n in retriever.rank("x", None, category, provider)} == {provider}
    assert list(retriever.listing(category)) == list(dict.fromkeys(retriever._catalog[n].provider for n in sorted(inside)))


def test_the_luck_of_a_found_tool_does_not_depend_on_when_it_is_found() -> None:
    episode_world = world(k=3, failures="rapidapi-2024", enforcement="record")
    one, other = episode_world.episode(4, 7), episode_world.episode(4, 7)
    wanted = [n for n in range(60) if all(c.number != n for c in one.candidates)][:6]
    one.offer(wanted)
    other.offer(wanted[3:])
    other.submit(0)
    other.wait()
    other.offer(wanted)
    slots = [{c.number: c.index for c in episode.candidates} for episode in (one, other)]
    for number in wanted:
        ends = []
        for episode, slot in zip((one, other), slots, strict=True):
            calls = [episode.call(slot[number]) for _ in range(3)]
            ends.append([(call.status, call.price, round(call.finished_s - call.started_s, 6)) for call in calls])
        assert ends[0] == ends[1]
    judged = [episode.finish().judged for episode in (one, other, episode_world.episode(4, 7))]
    assert judged[0] == judged[1]
    assert [e.fork().log for e in (one, other)] == [one.log, other.log]


def test_events_reach_tools_that_are_found_later() -> None:
    events = [{"at_s": 1.0, "kind": "price_change", "factor": 3.0}, {"at_s": 5.0, "kind": "ban"}]
    episode_world = world(k=2, events=events, enforcement="record")
    episode = episode_world.episode(0, 1)
    before = episode_world.episode(0, 1)
    episode.advance(2.0)
    numbers = [n for n in range(10) if all(c.number != n for c in episode.candidates)][:2]
    for one in (episode, before):
        one.offer(numbers)
    before.advance(2.0)
    assert [episode.quote(i) for i in range(4)] == [before.quote(i) for i in range(4)]
    assert episode.quote(3) == 3.0 * episode.candidates[3].quote
    for one in (episode, before):
        one.advance(4.0)
        assert one.banned == {0, 1, 2, 3}


def test_scores_of_a_search() -> None:
    score = runpy.run_path(str(BENCHMARK))["score"]
    task = Task("t", 0, "", (Need("1", ("a", "b")), Need("2", ("c",))), ())
    assert score(("a", "x", "c"), task) == (1.0, pytest.approx(1.5 / (1 + 0.6309297536 + 0.5)), 1.0)
    assert score(("x",), task) == (0.0, 0.0, 0.0)


def test_deeper_searches_and_better_retrievers_find_more() -> None:
    measure = runpy.run_path(str(BENCHMARK))["retrieval_quality"]
    rows = measure(parse_scenario({"name": "s", "source": SMALL}), ("bm25", "oracle"), (1, 5, 20))
    bm25, oracle = [row["recall"] for row in rows[:3]], [row["recall"] for row in rows[3:]]
    assert bm25 == sorted(bm25) and all(a <= b for a, b in zip(bm25, oracle, strict=True))
    assert all(row["ndcg"] == 1.0 for row in rows[3:]) and rows[0]["tasks"] == 20


@pytest.mark.parametrize("name", ["wordllama", "minilm"])
def test_an_embedding_finds_words_that_mean_the_same(name: str) -> None:
    if name == "wordllama":
        pytest.importorskip("wordllama", reason="needs the extra `retrieval`")
    elif not has_minilm():
        pytest.skip("needs the extra `minilm`")
    embed = word_embedding() if name == "wordllama" else sentence_embedding()
    ranking = Cosine(["the forecast of rain and wind", "books by their author", "the price of a share"], embed)
    assert ranking.scores("weather tomorrow").argmax() == 0
    assert ranking.scores("novel writer").argmax() == 1


def test_settings_are_checked_and_enter_the_digest() -> None:
    plain = {"name": "d", "source": {**SMALL, "candidates": {"k": 5}}}
    document = {"name": "d", "source": {**SMALL, "candidates": {"from": "catalogue", "retriever": "bm25", "k": 5}}}
    assert parse_scenario(plain).digest == parse_scenario(document).digest
    again = parse_scenario(parse_scenario(document).model_dump(mode="json"))
    assert again.digest == parse_scenario(document).digest
    other = {"name": "d", "source": {**SMALL, "candidates": {"retriever": "oracle", "k": 5}}}
    assert parse_scenario(other).digest != parse_scenario(document).digest
    for wrong in ({"from": "web"}, {"retriever": "guess"}, {"k": 0}):
        with pytest.raises(DataError):
            parse_scenario({"name": "d", "source": {**SMALL, "candidates": wrong}})
    assert "retriev" not in str(load_scenario("marketplace").model_dump(mode="json"))
