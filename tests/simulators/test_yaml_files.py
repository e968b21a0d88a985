"""Untrusted YAML files: bounded, without double keys, and named with the line where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import costgym
from costgym.simulators.files import read_yaml


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    return path


def test_aliases_and_merged_keys_are_read(tmp_path: Path) -> None:
    text = "base: &base {a: 1, b: 2}\nlist: [*base, *base]\nmore:\n  <<: *base\n  b: 3\n"
    same = {"a": 1, "b": 2}
    assert read_yaml(written(tmp_path, text)) == {"base": same, "list": [same, same], "more": {"a": 1, "b": 3}}


def test_a_time_stays_the_text_that_was_written(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "a: 2024-13-45\nb: 2026-11-25T10:00:00Z\n")) == {
        "a": "2024-13-45",
        "b": "2026-11-25T10:00:00Z",
    }


def test_keys_that_merge_each_other_billions_of_times_are_refused_at_once(tmp_path: Path) -> None:
    text = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))
    with pytest.raises(costgym.CostGymError, match="its aliases expand to more than 1,000,000 parts"):
        read_yaml(written(tmp_path, text))


def test_nested_aliases_that_stand_for_billions_of_parts_are_refused_at_once(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(costgym.CostGymError, match="its aliases expand to more than 1,000,000 parts"):
        read_yaml(written(tmp_path, "\n".join(levels)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3.*the key 'a' is given twice"),
        ("tools:\n  - {name: x, name: y}\n", "line 2.*the key 'name' is given twice"),
        ("a: &a [1, *a]\n", "contains itself"),
        ("a: [1,\n", "line 2"),
        ("a: " + "[" * 200_000, "line 1.*at most 100 levels"),
        ("a: !!int 'x'\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "not valid YAML"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(costgym.CostGymError, match=sentence):
        read_yaml(written(tmp_path, text))
