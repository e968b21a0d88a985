"""Random edits, frames, YAML and JSON documents: refused in words, within seconds, and never believed."""

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costgym.envs.actions import read_action
from costgym.simulators.errors import CostGymError, DataError
from costgym.simulators.files import read_yaml
from tests.helpers.fuzzing import KINDS, Ground


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("fuzzing"))


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_what_others_wrote_is_refused_in_words_or_read_as_data(kind: str, ground: Ground, seed: int) -> None:
    begin = time.process_time()
    outcome = ground.try_one(kind, random.Random(seed))
    assert outcome in ("refused", "read"), outcome
    assert time.process_time() - begin < 5.0


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_JSON = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(_JSON | st.text())
def test_any_text_is_an_action(value: object) -> None:
    assert read_action(value if isinstance(value, str) else str(value)).kind in ("call", "finish", "wait", "think")


@settings(max_examples=2 * settings.default.max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8")) | st.text("[]{}:,-&*! \n?|>'\"ab1"))
def test_any_text_is_yaml_or_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    try:
        read_yaml(tmp_path / "x.yaml")
    except CostGymError as error:
        assert isinstance(error, DataError) and str(error)
