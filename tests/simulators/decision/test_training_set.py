"""DEER's training set, drawn again from a folder's tools."""

from collections import Counter
from pathlib import Path

import pytest

from costgym.simulators.decision.training_set import training_set
from costgym.simulators.errors import DataError
from tests.helpers.shared_data import shared
from tests.helpers.tooldeer_folder import tooldeer_folder


def test_what_is_asked_elsewhere_and_what_is_to_be_unseen_is_not_learnt_from(tmp_path: Path) -> None:
    drawn = training_set(tooldeer_folder(tmp_path))
    needed = [example for example in drawn.examples if example.kind != "NoSearch"]
    # of 36 queries two are asked, and five more are of the two tools of test.json
    assert (drawn.repeated, drawn.unseen, len(drawn.tools), len(needed)) == (2, 5, 10, 29)
    assert "Find the star number 0." not in {example.query for example in needed}
    assert not {"moon_finder", "shoe_finder"} & {tool.name for tool in drawn.tools}
    assert {tool.name for example in drawn.examples for tool in example.candidates} <= {tool.name for tool in drawn.tools}


def test_candidates_hold_the_right_tool_or_none_in_the_papers_proportion(tmp_path: Path) -> None:
    drawn = training_set(tooldeer_folder(tmp_path))
    assert Counter(example.kind for example in drawn.examples) == {"Call": 17, "NoCall": 12, "NoSearch": 1807}
    for example in drawn.examples:
        assert len({tool.name for tool in example.candidates}) == 5
        assert (example.gold is not None) == (example.kind == "Call")
        if example.gold is not None:
            noun = example.candidates[example.gold].name.removesuffix("_finder")
            assert example.query.startswith(f"Find the {noun} number")
            assert example.task.needs[0].arguments == {"name": example.query[9:-1].replace(" number", "")}
    assert drawn == training_set(tmp_path) != training_set(tmp_path, seed=1)


def test_a_folder_without_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no tool\.json"):
        training_set(tmp_path)


@pytest.mark.slow
def test_of_the_authors_data_900_tools_and_7775_queries_are_left() -> None:
    drawn = training_set(shared("data/tooldeer_full"))
    assert (len(drawn.tools), drawn.repeated, drawn.unseen) == (900, 1246, 372)
    assert Counter(example.kind for example in drawn.examples) == {"Call": 4662, "NoCall": 3113, "NoSearch": 1807}
