"""Grading reads answers as a careful person does."""

import json
from pathlib import Path
from runpy import run_path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.agents.models.simulated import written
from costgym.simulators.grading import FACT_TYPES, read_answer, read_facts, states, type_of
from costgym.simulators.scenario import load_scenario
from costgym.simulators.tasks import Need

TABLE = run_path(str(Path(__file__).with_name("written.py")))
RIGHT = [(fact, answer) for fact, answers in TABLE["RIGHT"].items() for answer in answers]
WRONG = [(fact, answer) for fact, answers in TABLE["WRONG"].items() for answer in answers]


def passes(fact: str, answer: str, **settings: object) -> bool:
    reading, _ = read_facts([Need(fact, (), **settings)], [False], answer, "")  # type: ignore[arg-type]
    return all(reading)


def test_the_table_has_two_hundred_answers() -> None:
    assert len(RIGHT) + len(WRONG) >= 200 and len(set(RIGHT)) == len(RIGHT)


@pytest.mark.parametrize(("fact", "answer"), RIGHT)
def test_a_right_answer_passes_in_any_form(fact: str, answer: str) -> None:
    assert passes(fact, answer), read_answer([Need(fact, ())], answer)


@pytest.mark.parametrize(("fact", "answer"), WRONG)
def test_a_wrong_answer_fails(fact: str, answer: str) -> None:
    assert not passes(fact, answer), read_answer([Need(fact, ())], answer)


@pytest.mark.parametrize(
    ("fact", "type_"),
    [
        ("527911", "number"), ("-3.5 degrees", "number"), ("$12", "number"), ("12 seats", "number"), ("2027-08-04", "date"),
        ("2027-08-04 08:49", "moment"), ("08:49", "time"), ("BGO-2", "identifier"), ("00471", "identifier"),
        ("OSL", "identifier"), ("Maria K. Olsen", "name"), ("the open door", "text"), ("123 Elm Street, Quiet Quarter", "text"),
    ],
)  # fmt: skip
def test_a_fact_has_the_type_that_its_writing_shows(fact: str, type_: str) -> None:
    assert type_of(fact) == type_ and type_ in FACT_TYPES


def test_a_stated_type_is_held_to() -> None:
    assert passes("00471", "471", fact_type="number") and not passes("00471", "471")
    assert passes("a, b", "it is A, B!", fact_type="words") and not passes("a, b", "a b", fact_type="words")


def test_a_tolerance_admits_rounded_numbers() -> None:
    assert passes("11.2 degrees", "about 11 degrees", tolerance=0.5) and not passes("11.2 degrees", "about 10", tolerance=0.5)


def test_an_accepted_alternative_passes() -> None:
    assert passes("BGO", "Bergen Flesland", accept=("Bergen Flesland",)) and not passes("BGO", "Bergen Flesland")


def test_intermediate_and_optional_facts_need_not_be_stated_and_may_be() -> None:
    needs = [Need("BGO-2", (), asked=False), Need("11.2 degrees", (), after=(0,)), Need("Maria K. Olsen", (), optional=True)]
    for answer in ("11.2 degrees", "At BGO-2 it is 11.2 degrees.", "11.2 degrees, says Maria K. Olsen"):
        reading, precision = read_facts(needs, [False] * 3, answer, "")
        assert (reading[1], precision) == (True, 1.0)
    assert [need.required for need in needs] == [False, True, False]
    assert read_facts(needs, [True, False, True], None, "") == ([True, False, True], 1.0)


def test_values_of_the_query_may_be_repeated_and_others_lower_the_precision() -> None:
    need = [Need("527911", (), wish="the population of Oslo in 2021")]
    assert read_answer(need, "In 2021, with 3 districts, Oslo had 527,911 people.").precision == 1.0
    assert read_answer(need, "Oslo: 527,911 people, 48,112 cars").precision == 0.5
    assert read_answer(need, "On 2027-03-04 flight SK-4041 left; 527,911").stray == 0  # values of another kind


def dump(length: int) -> str:
    """A dump of what calls returned, with every fact wanted somewhere in it."""
    rows = [
        {"id": f"AC-{10_000 + 7 * i}K", "value": 1000.25 + 3 * i, "by": f"Anna {chr(65 + i % 26)}. Brook"}
        for i in range(length)
    ]
    wanted = {"id": "BGO-2", "value": 527_911, "by": "Maria K. Olsen", "on": "2027-08-04"}
    return json.dumps([*rows[: length // 2], wanted, *rows[length // 2 :]])


@pytest.mark.parametrize("length", [2, 3, 5, 8, 30, 100, 400, 2000])
def test_a_dump_fails_whatever_its_length(length: int) -> None:
    assert not any(passes(fact, dump(length)) for fact in ("527911", "BGO-2", "Maria K. Olsen"))
    reading, precision = read_facts([Need("527911", ()), Need("BGO-2", ())], [False] * 2, dump(length), "")
    assert not any(reading) and precision < 0.5


def test_the_simulated_models_forms_are_all_read() -> None:
    tasks = load_scenario("marketplace").build().tasks
    for task in (tasks[number] for number in range(0, 800, 8)):
        for luck in (0.0, 0.45, 0.65, 0.95):
            answer = " ".join(f"{need.wish}: {written(need.fact, '', luck)}." for need in task.needs)
            assert read_facts(task.needs, [False] * len(task.needs), answer, task.query) == ([True] * len(task.needs), 1.0)


READ_BY_HAND = [
    (["16.99", "Keiko L. Kaplan"], "16.99; Keiko L. Kaplan", True),
    (["660 Saffron Court, Borrowed Quarter"], "660 Saffron Court, Borrowed Quarter", True),
    (["sc-82913J", "224 Windmill Close, Crimson Quarter"], "sc-82913J; 224 Windmill Close, Crimson Quarter", True),
    (["nw-91995T", "3523643"], "nw-91995T; 3523643", True),
    (["Q-40301C", "6113689"], "Q-40301C; 6113689", True),
    (
        ["Crimson signal crosses the early valley", "2171.81", "8464188"],
        "Crimson signal crosses the early valley; 2171.81",
        False,
    ),
    (["15.32", "54.68"], "4.91; 4.91", False),
    (["nw-38063R", "2030-01-07 07:45"], "gm; gm", False),
    (["4818.15", "PK-41259N", "nw-35471B", "20.16"], "ml-97425P; Wendell Lindqvist", False),
    (["3186.37", "LS-87621W"], "11; 11; 11; 11; 11; 11", False),
]


@pytest.mark.parametrize(("facts", "answer", "passes"), READ_BY_HAND)
def test_answers_of_a_real_model_are_graded_as_a_reader_grades_them(facts: list[str], answer: str, passes: bool) -> None:
    """From the recorded episodes of SmolLM2-135M after fine-tuning."""
    reading, _ = read_facts([Need(fact, ()) for fact in facts], [False] * len(facts), answer, "")
    assert all(reading) == passes


@given(st.text(max_size=200))
def test_any_text_can_be_read_and_graded(text: str) -> None:
    needs = [Need(fact, ()) for fact in TABLE["RIGHT"]]
    reading = read_answer(needs, text)
    assert len(reading.present) == len(needs) and 0.0 <= reading.precision <= 1.0


@given(st.integers(0, 10**9), st.sampled_from(["{:,}", "{}", "{:_}", "{}.0"]))
def test_a_whole_number_is_found_in_every_grouping_and_no_other_is(number: int, form: str) -> None:
    assert states(Need(str(number), ()), f"It is {form.format(number)}.")
    assert not states(Need(str(number), ()), f"It is {form.format(number + 1)}.")
