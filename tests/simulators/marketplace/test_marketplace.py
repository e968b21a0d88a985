"""The generated marketplace: exact small examples, and what holds for every task."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import PRESETS
from costgym.simulators.marketplace import Marketplace, generate_marketplace
from costgym.simulators.marketplace.entities import pool
from costgym.simulators.marketplace.facts import make_fact
from costgym.simulators.marketplace.schema import check_arguments
from costgym.simulators.marketplace.tasks import TaskRules, _likeness
from costgym.simulators.marketplace.vocabulary import vocabulary
from costgym.simulators.tasks import fact_in, normalise

DIGEST = """
import hashlib, json
from costgym.simulators.marketplace import generate_marketplace
m = generate_marketplace(5, tools=120, providers=24, categories=8, tasks={"train": 20, "test": 20}, candidates=(2, 12))
h = hashlib.sha256()
for tool in m.catalog: h.update(repr(tool).encode())
for task in m.tasks:
    h.update(repr(task).encode())
    for need in task.needs:
        for name in need.tools: h.update(m.answers.answer(m.catalog.get(name), need.arguments, task).encode())
        h.update(m.answers.irrelevant(m.catalog.get(name), need.arguments, task, 0.3).encode())
print(h.hexdigest())
"""


@lru_cache
def market(seed: int = 0) -> Marketplace:
    return generate_marketplace(seed)


def all_needs(task):
    for need in task.needs:
        yield need
        if need.alternative is not None:
            yield need.alternative


def test_the_default_has_the_size_of_toolplanners_vocabulary():
    m = market()
    assert (len(m.catalog), len(m.catalog.providers), len(m.catalog.categories)) == (1432, 240, 36)
    assert {split: len(m.tasks.numbers(split)) for split in m.tasks.splits} == {"train": 400, "test": 400}
    assert set(m.tasks.numbers("train")).isdisjoint(m.tasks.numbers("test"))
    assert len(m.tasks) == len(list(m.tasks)) == 800
    assert [task.number for task in m.tasks] == list(range(800))


def test_about_four_providers_offer_each_capability():
    offered = Counter(tool.capability for tool in market().catalog)
    assert set(offered.values()) <= {3, 4, 5}
    assert sum(offered.values()) / len(offered) == pytest.approx(4, abs=0.1)


def test_groups_mean_what_they_say():
    m = market()
    for task in m.tasks:
        tools = [[m.catalog.get(name) for name in need.tools] for need in task.needs]
        categories = {options[0].category for options in tools}
        if task.group == "G1":
            assert set.intersection(*({tool.provider for tool in options} for options in tools)), task.id
        elif task.group == "G2":
            assert len(categories) == 1, task.id
        else:
            assert task.group == "G3"
            assert len(categories) > 1, task.id


def test_needs_are_distributed_as_in_the_real_queries():
    counts = Counter(len(task.needs) for task in market().tasks)
    assert set(counts) <= {1, 2, 3, 4, 5, 6}
    assert 0.6 < counts[2] / 800 < 0.8
    several = [task for task in market().tasks if len(task.needs) > 1]
    chained = sum(any(need.after for need in task.needs) for task in several)
    assert 0.3 < chained / len(several) < 0.42


def test_every_tool_serves_one_need_at_most():
    for task in market().tasks:
        names = [name for need in task.needs for name in need.tools]
        assert len(names) == len(set(names)), task.id
        assert len({need.capability for need in task.needs}) == len(task.needs)


def test_a_chain_hands_on_what_the_earlier_call_found():
    for task in market().tasks:
        for index, need in enumerate(task.needs):
            for before in need.after:
                assert before < index
                assert task.needs[before].fact in need.arguments.values()
                assert task.needs[before].alternative is None
                assert task.needs[before].fact not in task.query


def test_an_alternative_asks_the_same_tools_for_something_else():
    mismatches = 0
    for task in market().tasks:
        for need in task.needs:
            if need.alternative is not None:
                mismatches += 1
                assert need.alternative.tools == need.tools
                assert need.alternative.after == need.after
                assert need.alternative.arguments != need.arguments
                assert need.alternative.fact != need.fact
    assert mismatches > 200


@given(seed=st.integers(0, 1), number=st.integers(0, 799))
def test_a_task_can_be_solved_from_its_text(seed, number):
    m = market(seed)
    task = m.tasks[number]
    assert len(task.candidates) == len(set(task.candidates)) == 16
    facts = [need.fact for need in all_needs(task)]
    assert len(facts) == len(set(facts))
    for need in task.needs:
        earlier = {task.needs[index].fact for index in need.after}
        for value in need.arguments.values():
            assert value in earlier or str(value) in task.query
        assert normalise(need.fact) not in normalise(task.query)
        assert len(set(need.tools) & set(task.candidates)) >= 2
    for need in all_needs(task):
        for name in need.tools:
            tool = m.catalog.get(name)
            assert check_arguments(tool, need.arguments) is None
            answer = m.answers.answer(tool, need.arguments, task)
            json.loads(answer)
            assert fact_in(need.fact, normalise(answer))
            assert not any(fact_in(f, normalise(answer)) for f in facts if f != need.fact and f not in need.arguments.values())


@given(number=st.integers(0, 799), luck=st.floats(0, 1, exclude_max=True))
def test_wrong_arguments_never_give_the_fact(number, luck):
    m = market()
    task = m.tasks[number]
    need = task.needs[0]
    tool = m.catalog.get(need.tools[0])
    for name in need.arguments:
        assert m.answers.answer(tool, {**need.arguments, name: "Atlantis-00000"}, task) is None
        assert m.answers.answer(tool, {k: v for k, v in need.arguments.items() if k != name}, task) is None
    other = json.loads(m.answers.irrelevant(tool, need.arguments, task, luck))
    assert not fact_in(need.fact, normalise(json.dumps(other, ensure_ascii=False)))


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_value_is_an_argument_that_is_answered_or_not(value):
    m = market()
    task = m.tasks[0]
    tool = m.catalog.get(task.needs[0].tools[0])
    name = next(iter(task.needs[0].arguments))
    answer = m.answers.answer(tool, {name: value, "extra": value}, task)
    assert answer is None or json.loads(answer)


def test_huge_numbers_and_deep_lists_are_no_arguments():
    m = market()
    task = m.tasks[0]
    tool = m.catalog.get(task.needs[0].tools[0])
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    for value in (10**6000, deep, "x" * 10**6, float("nan"), "٣" * 4):
        assert m.answers.answer(tool, dict.fromkeys(task.needs[0].arguments, value), task) is None


def test_providers_give_one_fact_in_different_shapes():
    m = market()
    shapes = set()
    for task in list(m.tasks)[:50]:
        need = task.needs[0]
        shapes |= {tuple(sorted(json.loads(m.answers.answer(m.catalog.get(n), need.arguments, task)))) for n in need.tools}
    assert len(shapes) > 10


def test_splits_name_no_entity_in_common():
    named: dict[str, set] = {"train": set(), "test": set()}
    kinds = vocabulary().kinds
    for split, seen in named.items():
        for number in market().tasks.numbers(split):
            for need in all_needs(market().tasks[number]):
                seen |= {(k, v) for k, v in need.arguments.items() if kinds[k].entity}
    assert not named["train"] & named["test"]
    assert min(map(len, named.values())) > 400


def test_more_tools_change_none_that_were_there():
    small = generate_marketplace(3, tools=1000, tasks={"train": 1})
    large = generate_marketplace(3, tools=1432, tasks={"train": 1})
    known = {tool.name: tool for tool in large.catalog}
    common = [tool for tool in small.catalog if tool.name in known]
    assert len(common) > 700
    assert all(tool == known[tool.name] for tool in common)


def test_more_tasks_and_other_candidates_change_no_query():
    few = generate_marketplace(3, tasks={"train": 5, "test": 5})
    many = generate_marketplace(3, tasks={"train": 90, "test": 5}, candidates=40)
    for index in range(5):
        for split in ("train", "test"):
            a, b = (m.tasks[m.tasks.numbers(split)[index]] for m in (few, many))
            assert (a.id, a.query, a.needs) == (b.id, b.query, b.needs)
            assert (len(a.candidates), len(b.candidates)) == (16, 40)


def test_half_of_the_candidates_serve_and_the_others_are_the_most_alike():
    known = {c.name: c for category in vocabulary().categories for c in category.capabilities}
    usual, confusable = (
        generate_marketplace(3, tasks={"test": 15}, candidates=8, rules=TaskRules(serving=serving)) for serving in (None, 0.5)
    )
    for before, task in zip(usual.tasks, confusable.tasks, strict=True):
        assert (task.needs, task.query, len(task.candidates)) == (before.needs, before.query, 8)
        assert all(set(need.tools) & set(task.candidates) for need in task.needs)
        serving = {name for need in task.needs for name in need.tools}
        assert len(serving & set(task.candidates)) == max(4, len(task.needs))
        needs = [known[need.capability] for need in task.needs]
        near = {capability.category for capability in needs}
        alike: dict[bool, list[float]] = {True: [], False: []}
        for tool in confusable.catalog:
            if tool.category in near and tool.name not in serving:
                alike[tool.name in task.candidates].append(max(_likeness(known[tool.capability], need) for need in needs))
        assert min(alike[True]) >= max(alike[False])


@pytest.mark.parametrize("candidates", [1, (2, 40), 1432])
def test_candidates_are_as_many_as_asked_for(candidates):
    m = generate_marketplace(1, tasks={"train": 40}, candidates=candidates)
    low, high = (candidates, candidates) if isinstance(candidates, int) else candidates
    sizes = {len(task.candidates) for task in m.tasks}
    assert min(sizes) >= low
    assert max(sizes) <= high
    assert all(set(need.tools) & set(task.candidates) for task in m.tasks for need in task.needs)
    assert m.tasks.most_candidates == high


def test_the_smallest_marketplace_has_two_tools():
    m = generate_marketplace(0, tools=2, providers=1, categories=1, tasks={"train": 3, "test": 3})
    assert [len(task.candidates) for task in m.tasks] == [2] * 6
    assert m.tasks.most_candidates == 2


def test_profiles_follow_the_measured_market():
    profiles = [tool.profile for tool in market().catalog]
    assert sum(p.reliability for p in profiles) / len(profiles) == pytest.approx(PRESETS["rapidapi-2023"].usable, abs=0.03)
    assert sorted(p.latency_s[1] for p in profiles)[716] == pytest.approx(0.8, abs=0.15)
    assert {p.fee for p in profiles} == {float(fee) for fee in range(1, 11)}
    assert all(p.timeout_s == 30.0 for p in profiles)
    limited = sum(p.rate_limit > 0 for p in profiles) / len(profiles)
    assert limited == pytest.approx(0.15, abs=0.03)
    assert 0.2 < sum(p.concurrency > 0 for p in profiles) / len(profiles) < 0.3
    assert 0.25 < sum(p.cold_start_s > 0 for p in profiles) / len(profiles) < 0.35


def test_reliable_marketplaces_have_no_limits():
    m = generate_marketplace(0, tasks={"train": 1}, failures=PRESETS["reliable"])
    assert all(t.profile.reliability == 1.0 and t.profile.rate_limit == t.profile.quota == 0 for t in m.catalog)


def test_the_bytes_are_the_same_in_every_process():
    digests = set()
    for seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1
    assert len(digests.pop()) == hashlib.sha256().digest_size * 2


def test_reading_order_does_not_matter():
    size = {"tools": 120, "providers": 24, "categories": 8, "tasks": {"train": 30}}
    forwards, backwards = generate_marketplace(2, **size), generate_marketplace(2, **size)
    assert list(reversed([backwards.tasks[n] for n in reversed(range(30))])) == list(forwards.tasks)


@pytest.mark.parametrize(
    ("settings_", "path"),
    [
        ({"categories": 37}, "marketplace.categories"),
        ({"categories": 0}, "marketplace.categories"),
        ({"providers": 10}, "marketplace.providers"),
        ({"tools": 100}, "marketplace.tools"),
        ({"candidates": 0}, "marketplace.candidates"),
        ({"candidates": (9, 3)}, "marketplace.candidates"),
        ({"tasks": {}}, "marketplace.tasks"),
        ({"tools": 9000}, "marketplace"),
    ],
)
def test_sizes_that_do_not_fit_are_named(settings_, path):
    with pytest.raises(ConfigError) as error:
        generate_marketplace(0, **settings_)
    assert error.value.location == path


@pytest.mark.parametrize("form", ["decimal", "money", "count", "person", "title", "phrase", "address", "day", "moment"])
@given(luck=st.integers(0, 2**64 - 1))
def test_a_fact_reads_the_same_in_json_and_in_text(form, luck):
    fact = make_fact(form, luck)
    assert fact_in(str(fact), normalise(json.dumps({"x": fact}, ensure_ascii=False)))
    assert len(str(fact)) >= 4


@given(data=st.data(), seed=st.integers(0, 3))
def test_a_value_and_its_number_belong_together(data, seed):
    kind = data.draw(st.sampled_from(list(vocabulary().kinds.values())))
    number = data.draw(st.integers(0, kind.size - 1))
    value = kind.value(number, seed)
    assert kind.number(value, seed) == number
    assert kind.number(str(value).upper(), seed) == number


def test_names_within_a_pool_are_distinct():
    for kind in vocabulary().kinds.values():
        if kind.form == "name":
            names = [normalise(name) for name in pool(kind.name)]
            assert len(names) == len(set(names)) >= 40, kind.name
