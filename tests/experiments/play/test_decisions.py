"""DEER's six accuracies."""

from costgym.experiments.play.decisions import DecisionRecord as Record
from costgym.experiments.play.decisions import accuracies


def test_the_six_accuracies_are_shares_of_their_kinds() -> None:
    records = [
        Record("NoSearch", False, None),
        Record("NoSearch", True, None),
        Record("NoCall", True, True),
        Record("NoCall", False, None),
        Record("Call", True, False),
        Record("Call", True, True),
        Record("Call", True, True),
    ]
    assert [*accuracies(records).values()] == [1 / 2, 4 / 5, 5 / 7, 1 / 2, 2 / 3, 3 / 5]
    assert [*accuracies(records[:2]).values()] == [1 / 2, None, 1 / 2, None, None, None]
