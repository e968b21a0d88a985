"""Grade a written answer by the typed facts in it."""

from costgym.simulators.grading.answers import AnswerReading, read_answer, read_facts, states
from costgym.simulators.grading.facts import FACT_TYPES, type_of

__all__ = ["FACT_TYPES", "AnswerReading", "read_answer", "read_facts", "states", "type_of"]
