"""The leaderboard in a terminal."""

import io
import re

import pytest
from rich.console import Console

from costgym.experiments.pages.table import markdown_of, print_table


def row(agent, limit, passed, cost, model="simulated", **more):
    return {
        "agent": agent, "model": model, "env": "e", "budget": {"price": limit}, "episodes": 200, "grading": "strict",
        "pass_rate": passed, "pass_rate_under_budget": passed, "judged_pass_rate": 1 - passed,
        "judged_pass_rate_under_budget": 1 - passed, "average_cost": cost, "budget_failure_rate": 0.0, "quality_of_plan": 0.3,
        "average_seconds": 2.0, "cost_per_success": cost / passed,
        "average_tokens": 1200.0, "tool_error_rate": 0.2, "regret": None,
        "ci95": {"pass_rate": [passed - 0.05, passed + 0.05]}, **more,
    }  # fmt: skip


def board(*rows):
    return {
        "format": "costgym.leaderboard/1",
        "suite": "quick",
        "seed": 0,
        "version": "0.1.0",
        "rows": list(rows),
        "scenario": {"currency": "credits"},
    }


ROWS = (
    row("react", 20, 0.5, 12.5),
    row("tot-dfs+ecoact+btp", 20, 0.6, 8.0),
    row("react", 10, 0.25, 9.75),
    row("oracle", 20, 0.9, 2.0, model=None),
)


def printed(*rows, width=100, styled=False, wide=False):
    out = io.StringIO()
    print_table(board(*rows), Console(file=out, width=width, force_terminal=styled, color_system=None), wide)
    return out.getvalue()


def names(text):
    return [
        word for line in text.splitlines() for word in line.split()[1:2] if word in {"react", "oracle", "tot-dfs+ecoact+btp"}
    ]


def test_rows_are_grouped_by_budget_best_first_and_the_oracle_has_no_rank():
    lines = [line.split() for line in printed(*ROWS).splitlines()]
    starts = [line[:2] for line in lines if line and line[0] in ("1", "2", "–", "10", "20")]
    assert starts == [
        ["20", "¢:"], ["10", "¢"], ["1", "react"], ["20", "¢"], ["–", "oracle"], ["1", "tot-dfs+ecoact+btp"],
        ["2", "react"],
    ]  # fmt: skip


def heading(width):
    return next(line for line in printed(*ROWS, width=width).splitlines() if "Agent" in line)


def test_rates_are_percent_with_one_decimal_and_prices_have_two():
    names = ["Success %", "Cost per success", "Over budget %", "Cost", "Plan score", "Regret", "Time, s", "Tokens"]
    assert re.split(r"  +", heading(200).strip()) == ["#", "Agent", *names, "Tool errors %"]
    line = next(line for line in printed(*ROWS, width=200).splitlines() if "tot-dfs" in line and line.startswith(" 1"))
    assert line.split() == [
        "1",
        "tot-dfs+ecoact+btp",
        "60.0",
        "13.33",
        "0.0",
        "8.00",
        "0.300",
        "–",
        "2.00",
        "1,200",
        "20.0",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_table_fits_the_terminal_and_keeps_rank_pass_rate_cost_and_overspending(width):
    lines = printed(*ROWS, width=width, styled=True).splitlines()
    plain_lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert max(map(len, plain_lines)) <= width
    assert all(name in heading(width) for name in ("#", "Agent", "Success %", "Cost per success", "Over budget %"))
    assert any(line.split()[0] == "1" and line.split()[1][:8] == "tot-dfs+" for line in plain_lines if line.split())


def test_a_narrow_terminal_shortens_names_and_never_a_number():
    many = [row(f"agent-with-a-long-name-{number}", 20, 0.5, 1234.5 + number) for number in range(12)]
    ranked = [line.split() for line in printed(*many, width=56).splitlines() if "…" in line]
    assert [line[0] for line in ranked] == [str(rank) for rank in range(1, 13)]
    assert all(line[-3] == "50.0" and float(line[-2].replace(",", "")) > 2000 for line in ranked)


def test_a_wider_terminal_shows_more_columns():
    counts = [len(re.split(r"  +", heading(width).strip())) for width in (60, 80, 100, 140)]
    assert counts == sorted(set(counts))


def test_a_line_above_the_table_says_who_is_best_and_at_what_cost():
    assert "\n20 ¢: tot-dfs+ecoact+btp (simulated model), success 60 %, 13 ¢ a success.\n" in printed(*ROWS, width=200)
    assert "20 ¢: greedy, success 50 %, 4.0 ¢ a success." in printed(row("greedy", 20, 0.5, 2.0, model=None), *ROWS)


def test_a_wide_table_has_every_column_however_narrow_the_terminal_is():
    lines = printed(*ROWS, width=40, wide=True).splitlines()
    assert next(line for line in lines if "Agent" in line) == heading(200)


def test_markdown_has_a_table_for_each_condition_and_escapes_names():
    text = markdown_of(board(*ROWS, row("a|b *c*", 10, 0.75, 1.0)))
    assert text.count("| # | Agent | Success % | Cost per success | Over budget % |") == 2
    assert "| 1 | a\\|b \\*c\\* simulated | **75.0** | **1.33** | 0.0 |" in text
    assert "| – | oracle | 90.0 |" in text and "Tokens" not in text and "Tokens" in markdown_of(board(*ROWS), wide=True)


def test_a_pipe_gets_plain_text():
    text = printed(*ROWS, width=80)
    assert "\x1b" not in text and "─" not in text


def test_the_best_competitor_is_bold_and_the_oracle_never():
    out = io.StringIO()
    print_table(board(*ROWS), Console(file=out, width=100, force_terminal=True, color_system="standard"))
    assert "\x1b[1m60.0\x1b[0m" in out.getvalue()
    assert "\x1b[1m90.0\x1b[0m" not in out.getvalue()


def test_the_judge_grading_ranks_by_the_judged_rates():
    judged = [{**r, "grading": "judge"} for r in ROWS]
    assert names(printed(*judged)) == ["react", "oracle", "react", "tot-dfs+ecoact+btp"]
    assert "judge (a seeded stand-in) grading" in printed(*judged)


def test_simulated_figures_are_explained_and_real_models_named():
    assert "simulated language model" in printed(*ROWS)
    text = printed(row("react", 20, 0.5, 3.0, model="gpt-x"))
    assert "react gpt-x" in text
    assert "simulated" not in text


def test_a_name_is_neither_markup_nor_a_terminal_command():
    text = printed(row("[red]a\x1b[31mb", 20, 0.5, 3.0))
    assert "[red]a�[31mb" in text
    assert "\x1b" not in text


def test_void_episodes_are_reported_and_no_rows_are_no_error():
    assert "3 void episodes" in printed(row("react", 20, 0.5, 3.0, void_episodes=3))
    assert "no rows yet" in printed()
