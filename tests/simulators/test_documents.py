"""Untrusted documents and packed files: bounded, without double keys, and named with the line where they are wrong."""

import gzip
import lzma
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import costgym
from costgym.simulators.files import documents, load_arrays, read_json, read_packed, read_yaml


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


@pytest.mark.parametrize("part", ["1:", "59:"])
def test_numbers_of_base_60_are_texts_whatever_their_length(part: str, tmp_path: Path) -> None:
    for text in (part * 80_000 + "1", part * 80_000 + "1.5", "1:30", "190:20:30.15"):
        began = time.process_time()
        assert read_yaml(written(tmp_path, f"a: {text}\n")) == {"a": text}
        assert time.process_time() - began < 5


def test_plain_words_are_those_of_the_core_schema(tmp_path: Path) -> None:
    text = """
    [yes, no, on, off, y, True, FALSE, null, ~, '', 010, 0o10, 0x1F, 1_000, +7, -7, 1e3, .5, 1., -.inf, 0b1, "1", !!float 3]
    """
    assert read_yaml(written(tmp_path, text)) == [
        "yes", "no", "on", "off", "y", True, False, None, None, "", 10, 8, 31, "1_000", 7, -7, 1000.0, 0.5, 1.0, float("-inf"),
        "0b1", "1", 3.0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a": ' + "9" * 400 + "}", "a number of at most 308 digits, got 400"),
        ('{"a": ' + "9" * 5000 + "}", "a number of at most 308 digits, got 5,000"),
        ("[" * 101 + "]" * 101, None),
        ("[" * 103 + "]" * 103, "at most 100 levels"),
        ("[" * 100_000, "at most 100 levels"),
        ('{\n"a": 1,\n"b": tru}', "line 3, column 6: is not valid JSON"),
        ("", "line 1, column 1: is not valid JSON"),
        ("\ufeff{}", "is not valid JSON"),
    ],
)
def test_json_that_cannot_be_read_is_named_with_its_line(text: str, sentence: str | None, tmp_path: Path) -> None:
    if sentence is None:
        read_json(written(tmp_path, text))
        return
    with pytest.raises(costgym.CostGymError, match=rf"x\.yaml.*{sentence}"):
        read_json(written(tmp_path, text))


@pytest.mark.parametrize(("suffix", "pack"), [("xz", lzma.compress), ("gz", gzip.compress)])
def test_a_packed_file_is_refused_before_it_is_unpacked_beyond_its_bound(
    suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(pack(b"ab" * 1000))
    assert read_packed(path, 2000) == b"ab" * 1000
    for content, problem in (
        (pack(bytes(30_000_000)), "larger than 1 MiB once unpacked"),
        (path.read_bytes()[:-9], "cut off"),
        (b"no archive", "cannot be unpacked"),
    ):
        path.write_bytes(content)
        with pytest.raises(costgym.CostGymError, match=problem):
            read_packed(path, 2**20)


def test_arrays_have_a_bound_that_no_header_moves(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    wanted = {"a": np.arange(12.0).reshape(3, 4), "b": np.asfortranarray(np.ones((2, 3), int)), "c": np.array("text")}
    np.savez_compressed(path, **wanted)
    read = load_arrays(path, 10_000)
    assert read.keys() == wanted.keys() and all(np.array_equal(read[name], wanted[name]) for name in wanted)
    assert read["a"].flags.writeable
    np.savez_compressed(path, a=np.zeros(10_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(costgym.CostGymError, match="holds more than 1 MiB once unpacked"):
        load_arrays(path, 2**20)
    claims = (
        b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}".ljust(117) + b"\n"
    )
    for name, content in (("a.npy", claims), ("a.npy", b"no array"), ("a.npy", claims.replace(b"<f8", b"|O8"))):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)
        with pytest.raises(costgym.CostGymError, match=r"not an \.npz of plain arrays"):
            load_arrays(path, 2**20)


def test_keys_that_merge_each_other_billions_of_times_are_refused_at_once(tmp_path: Path) -> None:
    text = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))
    with pytest.raises(costgym.CostGymError, match="its aliases expand to more than 1,000,000 parts"):
        read_yaml(written(tmp_path, text))


def test_a_document_of_too_many_parts_is_refused_before_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_NODES", 100)
    assert len(read_yaml(written(tmp_path, "- a\n" * 99))) == 99
    with pytest.raises(costgym.CostGymError, match=r"line 102.*expected at most 100 parts"):
        read_yaml(written(tmp_path, "- a\n" * 1000))


def test_nested_aliases_that_stand_for_billions_of_parts_are_refused_at_once(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(costgym.CostGymError, match="its aliases expand to more than 1,000,000 parts"):
        read_yaml(written(tmp_path, "\n".join(levels)))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a:\n  b: " + "9" * 400, "line 2.*expected a number of at most 308 digits, got 400"),
        ("a: !!int '1:1:1'", "line 1.*invalid literal"),
        ("a: !!float '1:1.5'", "line 1.*expected a number, got '1:1.5'"),
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
