"""Results as objects: the sequence, its summaries, comparisons, frames, tables and figures."""

import io
import json
import pickle
import re
import subprocess
import sys
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import costgym
from costgym import Results
from costgym.agents.registry import make_agent
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import Leaderboard, run
from costgym.experiments.play.collect import collect
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.metrics import paired_difference, summarise
from costgym.experiments.play.plots import PNG_CODE, PNG_DATA, _frontier
from costgym.simulators.errors import ConfigError, DataError, MissingExtra, UnknownName
from tests.helpers.boards import HOSTILE, record
from tests.helpers.command_line import invoke


def runs(agents=("react", "dfsdt"), budgets=(20,), episodes=4, **conditions):
    """Every agent passes one episode more than the one before it, and pays 1 more."""
    records = [
        record(e, agent=agent, budget={"price": b}, strict=e <= a, price=2 + a)
        for b in budgets
        for a, agent in enumerate(agents)
        for e in range(episodes)
    ]
    return Results(records, **{"split": "test", "currency": "credits", **conditions})


# -- the sequence ----------------------------------------------------------------------------------------------------------


def test_results_are_the_sequence_of_records_that_they_hold():
    records = [record(e) for e in range(5)]
    results = Results(records, split="test")
    assert len(results) == 5 and list(results) == records and results[-1] is records[-1]
    assert results == records and records == results and results != records[:4] and results != records[::-1]
    assert results[1:3] == records[1:3] and isinstance(results[1:3], Results) and results[1:3].split == "test"
    assert records[2] in results and results.index(records[3]) == 3 and list(reversed(results)) == records[::-1]
    assert not Results() and Results() == []
    with pytest.raises(TypeError):
        results[0] = records[1]  # type: ignore[index]
    with pytest.raises(TypeError, match="unhashable"):
        hash(results)


def test_results_that_were_played_under_other_conditions_are_not_equal():
    records = [record(e) for e in range(2)]
    assert Results(records, split="test") != Results(records, split="train")
    assert Results(records, split="test") == Results(records, split="test")


def test_results_survive_a_pickle():
    results = runs()
    assert pickle.loads(pickle.dumps(results)) == results


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), unique=True), st.integers(0, 18))
def test_cutting_results_and_joining_the_parts_gives_the_whole(keys, cut):
    whole = Results([record(episode, agent=agent) for agent, episode in keys], split="test")
    assert whole[:cut] + whole[cut:] == whole
    assert sum(len(whole.select(agent=agent)) for agent in "abc") == len(whole)


def test_two_records_of_one_episode_are_refused():
    results = runs()
    with pytest.raises(ConfigError, match=r"expected one record of episode 0 of 'react', got two"):
        results + results


def test_joined_runs_were_played_under_the_same_conditions():
    for name, one, other in (("split", "train", "test"), ("seed", 1, 2), ("grading", "strict", "judge"), ("seeds", 1, 4)):
        with pytest.raises(ConfigError, match=f"expected one {name}, got {one!r} and {other!r}"):
            Results([record()], **{name: one}) + Results([record(agent="dfsdt")], **{name: other})
    apart = Results([record()], split="train") + Results([record(env="costgym/Marketplace-v0")], split="test")
    assert apart.split == "train, test"
    with pytest.raises(TypeError):
        _ = Results([record()]) + [record(1)]  # type: ignore[operator]  # noqa: RUF005


def test_a_selection_is_by_fields_of_an_episode():
    results = runs(budgets=(10, 20))
    assert [r.episode for r in results.select(agent="react", budget={"price": 10})] == [0, 1, 2, 3]
    assert results.select(agent="nobody") == []
    with pytest.raises(UnknownName, match="agnet"):
        results.select(agnet="react")


def test_a_line_says_who_played_where_and_what_came_of_it():
    assert repr(runs(agents=["react"])) == (
        "Results(react in costgym/MarketplaceChat-v0: 4 episodes, split test, "
        "25.0 % succeeded within the budget, 2.00 ¢ an episode)"
    )
    first, _, head, *rows, _, last = repr(runs()).splitlines()
    assert first == "Results(2 agents in costgym/MarketplaceChat-v0: 8 episodes, split test)"
    assert head.split("  ")[0] == "agent, budget" and len({len(line) for line in (head, *rows)}) == 1 and len(rows) == 2
    assert last == runs().conclusion() and last in runs()._repr_html_()
    assert repr(Results()) == "Results(no episodes)"
    assert repr(Results([record(agent="a\nb\x1b[2J")])).startswith("Results(a�b�[2J in ")


# -- figures ---------------------------------------------------------------------------------------------------------------


def test_the_summary_of_one_agent_is_its_row():
    results = runs(agents=["react"], seed=7)
    assert results.summary() == {**summarise(list(results), seed=7), "split": "test"}
    assert results.summary()["pass_rate_under_budget"] == 0.25
    with pytest.raises(ConfigError, match="at least one episode"):
        Results().summary()


def test_the_summary_of_several_agents_has_rows_by_agent_and_budget():
    summary = runs(budgets=(10, 20)).summary()
    assert list(summary) == ["react, 10 credits", "dfsdt, 10 credits", "react, 20 credits", "dfsdt, 20 credits"]
    assert [row["pass_rate_under_budget"] for row in summary.values()] == [0.25, 0.5, 0.25, 0.5]
    mixed = Results([record(), record(model="other"), record(agent="greedy", model=None, budget={})])
    assert list(mixed.summary()) == ["react, simulated, 20", "react, other, 20", "greedy, unlimited"]


def test_a_comparison_is_that_of_the_paired_statistics():
    results = runs(episodes=20)
    comparison = results.compare("dfsdt", "react")
    parts = [list(results.select(agent=agent)) for agent in ("dfsdt", "react")]
    assert comparison == paired_difference(*parts, "pass_rate_under_budget")
    assert (comparison.difference, comparison.episodes) == (0.05, 20)
    assert results.compare("dfsdt", "react", "average_cost").difference == 1.0
    judged = Results(list(results), grading="judge").compare("dfsdt", "react")
    assert judged.metric == "judged_pass_rate_under_budget" and judged.difference == 0.0


def test_a_comparison_needs_the_name_of_one_row():
    results = runs(budgets=(10, 20))
    with pytest.raises(ConfigError, match="has 2: react, 10 credits; react, 20 credits"):
        results.compare("react", "dfsdt")
    assert results.compare("react, 20 credits", "react, 10 credits").difference == 0.0
    with pytest.raises(UnknownName, match="reakt"):
        results.compare("reakt", "dfsdt")
    with pytest.raises(UnknownName, match="metric"):
        runs().compare("react", "dfsdt", "beauty")


# -- the frame -------------------------------------------------------------------------------------------------------------


def test_a_frame_has_a_row_an_episode_and_a_column_a_figure():
    pytest.importorskip("pandas")
    first = record(0, figures={"score": 0.5, "price": 9.0}, settings={"alpha": 0.5}, exceeded=None)
    second = record(1, price=25, exceeded="price", budget={"price": 20, "seconds": 60}, optimum_price=None, errors_by_status={})
    frame = Results([first, second], split="test").to_frame()
    assert list(frame.columns[:8]) == ["agent", "model", "env", "split", "task", "episode", "seed", "outcome"]
    assert frame["outcome"].tolist() == ["passed", "over budget"] and frame["split"].tolist() == ["test", "test"]
    assert frame["price"].tolist() == [5.0, 25.0] and frame["figures_price"].fillna(-1).tolist() == [9.0, -1.0]
    assert frame["score"].fillna(-1).tolist() == [0.5, -1.0] and frame["alpha"].fillna(-1).tolist() == [0.5, -1.0]
    assert frame["budget_price"].tolist() == [20.0, 20.0] and frame["budget_seconds"].fillna(-1).tolist() == [-1.0, 60.0]
    assert frame["errors_tool"].tolist() == [1, 1] and frame["status_timeout"].tolist() == [1, 0]
    assert frame["optimum_price"].isna().tolist() == [False, True]
    assert len(Results().to_frame()) == 0


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'pip install "costgym\[data\]"'):
        runs().to_frame()


# -- shown -----------------------------------------------------------------------------------------------------------------


def test_a_table_has_names_and_units_of_the_registry_and_no_empty_column():
    text = runs()._repr_html_()
    headings = re.findall(r"<th style=[^>]*>([^<]*)</th>", text)
    assert headings == [
        "Agent, budget", "Episodes", "Success %", "Cost per success, ¢", "Over budget %", "Cost, ¢", "Time, s",
        "Tokens",
    ]  # fmt: skip
    assert re.findall(r"<th scope[^>]*>([^<]*)</th>", text) == ["react, 20 credits", "dfsdt, 20 credits"]
    assert re.findall(r"<td[^>]*>([\d.,]+)<br>", text)[:6] == ["25.0", "8.00", "0.0", "2.00", "2.50", "100"]
    assert "split test, strict grading" in text and "agents are ranked by it." in text
    apart = Results([record(), record(env="costgym/Marketplace-v0")])._repr_html_()
    assert apart.count("<table") == 2


def test_nothing_that_an_agent_says_is_taken_for_markup():
    hostile = record(
        agent=HOSTILE, model=HOSTILE, task=HOSTILE, crash=HOSTILE, settings={HOSTILE: HOSTILE}, env=f"costgym/{HOSTILE}"
    )
    results = Results([hostile, record(agent="other")], split=HOSTILE, currency=HOSTILE)
    for text in (results._repr_html_(), Results([], split=HOSTILE)._repr_html_()):
        assert "<script" not in text and "<img" not in text
    assert "&lt;script&gt;" in results._repr_html_()


@pytest.mark.parametrize(("kind", "name"), [("svg", "pareto"), ("pdf", "pareto"), ("png", "pareto"), ("svg", "budget_curve")])
def test_a_figure_has_the_same_bytes_whenever_it_is_saved_and_names_no_time(kind, name, tmp_path, monkeypatch):
    results, path, store = runs(budgets=(10, 20)), tmp_path / f"figure.{kind}", io.BytesIO()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # the clock that matplotlib would write down
    getattr(results.plot, name)().savefig(path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2000000000")
    getattr(results.plot, name)().savefig(store, format=kind)
    saved = store.getvalue()
    assert saved == path.read_bytes() and b"CreationDate" not in saved and b"<dc:date>" not in saved
    assert saved.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[kind])


def test_the_figures_name_their_axes_with_units_and_show_what_was_measured():
    results = runs(budgets=(10, 20))
    [axes] = results.plot.budget_curve().axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Budget, ¢ an episode", "Success within the budget, %")
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[10, 25], [20, 25]], [[10, 50], [20, 50]]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["react", "dfsdt"]
    [axes] = results.plot.pareto().axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Cost, ¢ an episode", "Success within the budget, %")
    assert axes.lines[-1].get_xydata().tolist() == [[2.0, 25.0], [3.0, 50.0]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["react", "dfsdt", "frontier"]
    assert results.plot.pareto()._repr_png_().startswith(b"\x89PNG")


def test_a_png_holds_its_figures_and_the_code_that_draws_it_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = costgym.make("costgym/Marketplace-v0", split="test", budget=20)
    results = costgym.rollout(env, ["cheapest", "greedy"], episodes=3, seed=4)
    for drawn in (results.plot.pareto(), results.plot.budget_curve()):
        drawn.savefig("first.png")
        with Image.open("first.png") as picture:
            data, code = json.loads(picture.text[PNG_DATA]), picture.text[PNG_CODE]
        assert [(row["agent"], row["episodes"]) for row in data] == [("cheapest", 3), ("greedy", 3)]
        assert [row["average_cost"] for row in data] == [row["average_cost"] for row in results.rows.values()]
        exec(compile(code, "code", "exec"), {})  # of results that were made above
        assert (tmp_path / "figure.png").read_bytes() == (tmp_path / "first.png").read_bytes()
    store = io.BytesIO()
    of_a_board = Results(list(results), split="test", seeds=3)
    of_a_board.plot.pareto().savefig(store)
    with Image.open(store) as picture:
        assert 'costgym.Results.load("FOLDER")' in picture.text[PNG_CODE]


def test_a_name_is_drawn_as_it_stands():
    for name in ("$\\frac{", "_hidden", "a\nb", HOSTILE):
        results = Results([record(agent=name)], currency="$x^{")
        figure = results.plot.pareto()
        store = io.BytesIO()
        figure.savefig(store, format="svg")
        assert figure.axes[0].get_legend().get_texts()[0].get_text()[:2] == name.replace("\n", "�")[:2]
        assert b"<script" not in store.getvalue()


def test_the_frontier_holds_what_no_cheaper_point_reaches():
    assert _frontier([(2, 0.5), (1, 0.5), (3, 0.9), (3, 0.7), (4, 0.8)]) == [(1, 0.5), (3, 0.9)]


def test_a_figure_says_what_it_lacks():
    with pytest.raises(ConfigError, match="at least one episode"):
        Results().plot.pareto()
    with pytest.raises(ConfigError, match="limited in price alone"):
        Results([record(budget={"seconds": 5})]).plot.budget_curve()
    assert len(Results([record(budget={"seconds": 5})]).plot.budget_curve("seconds").axes[0].lines) == 1
    with pytest.raises(UnknownName, match="gold"):
        runs().plot.budget_curve("gold")
    apart = runs() + Results([record(env="costgym/OpenCATP-v0")], split="test", currency="USD")
    with pytest.raises(ConfigError, match=r"one currency, got USD, credits; choose an environment: select\(env=\.\.\.\)"):
        apart.plot.pareto()


# -- where they come from --------------------------------------------------------------------------------------------------


def test_a_rollout_says_which_split_it_played_and_does_not_depend_on_the_engine():
    env = costgym.make("costgym/Marketplace-v0", split="test", budget=20)
    here = costgym.rollout(env, "greedy", episodes=6, seed=3)
    assert isinstance(here, Results) and here.split == "test" and len(here) == 6
    assert asdict(here.conditions["costgym/Marketplace-v0"]) == {
        "split": "test", "grading": "strict", "currency": "credits", "seed": 3, "seeds": 1,
    }  # fmt: skip
    assert costgym.rollout(env, "greedy", episodes=6, seed=3, engine=Local(2)) == here
    both = here + costgym.rollout(env, "cheapest", episodes=6, seed=3)
    assert list(both.summary()) == ["greedy, 20 credits", "cheapest, 20 credits"]


def test_the_package_shows_its_public_names_and_nothing_else():
    code = "import costgym, sys; print(*dir(costgym)); print([m for m in sys.modules if 'matplotlib' in m])"
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].split() == sorted(costgym.__all__) and lines[1] == "[]"
    assert {"make", "make_vec", "rollout", "Results"} <= set(dir(costgym))
    assert all(getattr(costgym, name) is not None for name in dir(costgym))
    assert [name for name in dir(costgym) if name.startswith("_")] == ["__version__"]


def test_a_folder_of_recorded_episodes_is_read_as_their_results_by_replay(tmp_path):
    env = costgym.make("costgym/MarketplaceChat-v0", split="test", budget=20)
    collect(env, make_agent("react"), 3, tmp_path / "recorded")
    assert Results.load(tmp_path / "recorded") == costgym.rollout(env, "react", 3)
    run(make_run_config(agents=["greedy"], budgets="price=20", episodes=4), tmp_path / "run")
    assert Results.load(tmp_path / "run") == Leaderboard.load(tmp_path / "run").results
    file = tmp_path / "recorded" / "trajectories.jsonl"
    file.write_text(file.read_text().replace('"crash":""', '"crash":"x"').replace("finish", "finish ", 1))
    for folder, words in ((tmp_path / "recorded", "line 2"), (tmp_path, "expected a folder with run.json")):
        with pytest.raises(DataError, match=words):
            Results.load(folder)


def test_a_rollout_of_names_plays_what_the_command_line_plays_past_uses_included(tmp_path):
    env = costgym.make("costgym/MarketplaceChat-v1", split="test", budget=20)
    both = costgym.rollout(env, ["react+btp", "react"], 3)
    for agent, figures in zip(("react+btp", "react"), both.summary().values(), strict=True):
        command = ("run", agent, "--episodes", 3, "--budget", "price=20", "--quiet", "--json", tmp_path / "row")
        assert invoke(*command).exit_code == 0
        row = json.loads((tmp_path / "row").read_text())
        assert (figures["agent"], figures["average_cost"], figures["pass_rate"]) == (
            agent,
            row["average_cost"],
            row["pass_rate"],
        )
    with pytest.raises(ConfigError, match="at least one agent"):
        costgym.rollout(env, [], 3)


def test_two_tracks_of_one_environment_keep_their_own_conditions():
    text = Results([record(e) for e in range(8)], split="test", seeds=4)
    one_world = [record(e, agent=agent, settings={"scenario": "one-world"}) for agent in ("react", "dfsdt") for e in range(4)]
    both = text + Results(one_world, split="test", currency="credits")
    assert {name: condition.seeds for name, condition in both.conditions.items()} == {
        "costgym/MarketplaceChat-v0": 4,
        "costgym/MarketplaceChat-v0, scenario one-world": 1,
    }
    assert len(both) == 16 and both.select(settings={}) == text
    assert "dfsdt" in both.conclusion("costgym/MarketplaceChat-v0, scenario one-world")
    assert both.conclusion("costgym/MarketplaceChat-v0") == ""
