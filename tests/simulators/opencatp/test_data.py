"""OpenCATP's tools, profiles, size levels, tasks, plan pools and data set folder."""

import contextlib
import errno
import json
import math
import os
import pickle
import sys
import tempfile
import types
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import ConfigError, DataError, InvalidProfile, UnknownName
from costgym.simulators.opencatp import Output, all_tasks, load_pool, load_profile, save_profile, size_level, task, tasks, v100
from costgym.simulators.opencatp.tasks import UNCERTAIN_OLD_IDS
from costgym.simulators.opencatp.tools import TOOLS, predecessors
from costgym.simulators.plan import Plan

# --- tools, levels, profiles


def test_what_may_come_before_a_tool() -> None:
    assert predecessors("image_denoising") == (
        "input_of_query", "image_colorization", "image_deblurring", "image_super_resolution",
    )  # fmt: skip
    assert "input_of_query" not in predecessors("machine_translation")
    assert "image_captioning" in predecessors("machine_translation")


@pytest.mark.parametrize(
    ("size", "level"),
    [
        ({"width": 490, "height": 402}, 0),
        ({"width": 1, "height": 1}, 0),
        ({"width": 266688, "height": 1}, 1),  # half-way between the first two centres
        ({"width": 266687, "height": 1}, 0),
        ({"width": 9999, "height": 9999}, 3),
        ({"text_length": 0}, 0),
        ({"text_length": 1079}, 1),  # half-way
        ({"text_length": 7003}, 3),
    ],
)
def test_the_nearest_centre_by_area_wins_and_the_larger_of_two_as_near(size: dict[str, int], level: int) -> None:
    assert size_level(**size) == level


@pytest.mark.parametrize(
    "size",
    [{}, {"width": 5}, {"width": 0, "height": 5}, {"width": -3, "height": 5}, {"width": 2.5, "height": 2}, {"text_length": -1},
     {"text_length": math.nan}, {"width": 5, "height": 5, "text_length": 5}, {"width": "wide", "height": 5}],
)  # fmt: skip
def test_invalid_sizes_are_refused(size: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="size_level"):
        size_level(**size)


def test_super_resolution_of_a_large_image_costs_more_than_any_score_repays() -> None:
    assert v100().price("image_super_resolution", 3) > 3 * 0.5669374317944147


def test_a_plan_costs_the_sum_and_takes_the_longest_branch() -> None:
    profile = v100()
    plan = Plan.from_list(["image_denoising", ["input_of_query"], "object_detection", ["input_of_query"]])
    assert profile.plan_price(plan, 1) == profile.price("image_denoising", 1) + profile.price("object_detection", 1)
    assert profile.plan_seconds(plan, 1) == profile.seconds("image_denoising", 1)


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_profile_survives_its_file(tmp_path: Path, suffix: str) -> None:
    save_profile(v100(), tmp_path / "mine.json")
    path = tmp_path / f"again{suffix}"
    record = json.loads((tmp_path / "mine.json").read_text())
    path.write_text(json.dumps(record) if suffix == ".json" else yaml.safe_dump(record))
    assert load_profile(path) == v100() != load_profile(_edited(tmp_path, tools__image_denoising__gpu_cons_mb=5000.0))


def _edited(folder: Path, **changes: Any) -> Path:
    """The V100 profile as a file with some fields changed; None removes a field."""
    save_profile(v100(), folder / "edited.json")
    record = json.loads((folder / "edited.json").read_text())
    for path, value in changes.items():
        *way, last = path.split("__")
        table = record
        for key in way:
            table = table[key]
        if value is None:
            del table[last]
        else:
            table[last] = value
    (folder / "edited.json").write_text(json.dumps(record))
    return folder / "edited.json"


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"tools__image_denoising__cpu_cons_mb": -5},
            InvalidProfile,
            r"tools\.image_denoising: cpu_cons_mb: expected .* got -5",
        ),
        ({"tools__image_denoising__gpu_inst_mb": [0, 0, -1, 0]}, InvalidProfile, "gpu_inst_mb at level 2"),
        ({"tools__image_denoising__time_ms": [1, 2, 3]}, InvalidProfile, "expected 4 values, one per size level, got 3"),
        ({"tools__image_denoising__time_ms": [1, 2, 3, math.nan]}, InvalidProfile, "time_ms at level 3"),
        ({"tools__image_denoising__time_ms": ["a", 1, 1, 1]}, InvalidProfile, "time_ms at level 0"),
        ({"tools__image_denoising__time_ms": 5}, DataError, "expected numbers, four by size level"),
        ({"tools__image_denoising__time_ms": None}, DataError, "time_ms is missing"),
        ({"tools__image_denoising__speed": 5}, DataError, "unknown field 'speed'"),
        ({"tools__image_denoising": 5}, DataError, "expected a table of figures"),
        ({"tools__image_denoising": None}, InvalidProfile, "no figures for image_denoising"),
        ({"tools__paint": {}}, DataError, r"tools\.paint: unknown tool"),
        ({"tools": 5}, DataError, "expected a table of tools"),
        ({"format": "other/1"}, DataError, "expected a profile with format"),
    ],
)
def test_wrong_profiles_name_the_place(tmp_path: Path, changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        load_profile(_edited(tmp_path, **changes))


def test_a_profile_that_is_not_there_or_not_readable(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="nearest: v100"):
        load_profile("v10")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match="is not valid JSON"):
        load_profile(tmp_path / "broken.json")
    with pytest.raises(UnknownName, match="unknown tool"):
        v100().price("paint", 0)
    with pytest.raises(InvalidProfile, match="size level"):
        v100().seconds(TOOLS[0], 4)


# --- tasks


def test_there_are_87_and_24_tasks_with_their_splits() -> None:
    counts = {(kind, split): len(tasks(kind, split)) for kind in ("sequential", "nonsequential") for split in ("train", "test")}
    assert counts == {
        ("sequential", "train"): 69, ("sequential", "test"): 18, ("nonsequential", "train"): 12, ("nonsequential", "test"): 12,
    }  # fmt: skip
    assert len(tasks()) == len(all_tasks()) == 111
    with pytest.raises(ConfigError, match="expected sequential, nonsequential or all"):
        tasks("parallel")
    with pytest.raises(ConfigError, match="expected train or test"):
        tasks("all", "validation")


def test_tasks_follow_from_their_numbers() -> None:
    assert task(14).degradations == ("low-resolutioned",)
    assert task(14).wants == (Output("image"),)
    assert (task(16).degradations, task(16).wants) == (
        ("low-resolutioned", "noisy", "blurry", "grayscale"),
        (Output("label", True),),
    )
    assert (task(75).degradations, task(75).wants) == (("low-resolutioned", "blurry"), (Output("caption", True),))
    assert task(215).wants == (Output("image"), Output("caption", True), Output("object"))
    assert (task(215).wanted_images, task(215).wanted_texts) == (1, 2)


def test_descriptions_name_what_is_wrong_and_what_is_wanted() -> None:
    assert task(206).description == (
        "The given image is noisy, blurry and without colour. Work out step by step, with the tools at hand, "
        "the class it belongs to in English and a caption of what it shows in German."
    )
    assert len({task.description for task in all_tasks()}) == 111


def test_both_numberings_lead_to_the_same_task() -> None:
    for numbered_task in all_tasks():
        assert task(numbered_task.task_id) is task(numbered_task.new_id, "new") is numbered_task


@pytest.mark.parametrize(
    ("number", "numbering"), [(2, "old"), (200, "old"), (-1, "old"), (87, "new"), (224, "new"), ("0", "old")]
)
def test_an_unknown_task_names_both_numberings(number: Any, numbering: Any) -> None:
    with pytest.raises(UnknownName, match=r"old: 0\.\.104 and 200\.\.229 with gaps, new: 0\.\.86 and 200\.\.223"):
        task(number, numbering)


def test_what_is_not_published_about_the_numbering_is_marked() -> None:
    ids = {task.task_id for task in all_tasks()}
    assert [len(ids & set(group)) for group in UNCERTAIN_OLD_IDS] == [2, 1, 1]


# --- plan pools

RECORD = {
    "task_id": 1, "sample_id": 3, "plan": ["image_denoising", ["input_of_query"]], "score": 81.0, "score_kind": "vit_score",
    "tool_exec_time_ms": [250.0], "tool_cpu_inst_mb": [0.0], "tool_gpu_inst_mb": [12.5],
}  # fmt: skip


def _json_pool(folder: Path, **changes: Any) -> Path:
    path = folder / "pool.json"
    path.write_text(json.dumps({"plans": [RECORD | changes]}))
    return path


def _pickled_pool(path: Path, protocol: int = 4, **tables: Any) -> Path:
    """A pool pickled under the official class name, with numpy numbers in it."""
    module = types.ModuleType("src.catpllm.data.pool")
    pool_class = type("PlanPool", (), {"__module__": module.__name__})
    module.PlanPool = pool_class  # type: ignore[attr-defined]
    pool = pool_class()
    number = np.float32(81.0)
    document = {
        "plans": [["Image Denoising", ["Input of Query"]]],
        "scores": [(number, "vit_score")],
        "tools_exec_time": [[np.float64(250.0)]],
        "tools_cpu_mem": [[0.0]],
        "tools_gpu_mem": [[12.5]],
    } | tables
    for name, cell in document.items():
        table: defaultdict[int, dict[int, Any]] = defaultdict(dict)
        table[1][3] = cell
        setattr(pool, name, table)
    sys.modules.update({"src": types.ModuleType("src"), module.__name__: module})
    try:
        path.write_bytes(pickle.dumps(pool, protocol))
    finally:
        del sys.modules["src"], sys.modules[module.__name__]
    return path


@pytest.mark.parametrize("protocol", range(6))
def test_the_official_pickle_and_json_hold_the_same_plans(tmp_path: Path, protocol: int) -> None:
    assert load_pool(_pickled_pool(tmp_path / "pool.pkl", protocol)) == load_pool(_json_pool(tmp_path))


def test_a_single_plan_may_stand_without_its_list(tmp_path: Path) -> None:
    bare = _pickled_pool(
        tmp_path / "pool.pkl", plans=["image_denoising", ["input_of_query"]], scores=(81.0, "vit_score"),
        tools_exec_time=[250.0], tools_cpu_mem=[0.0], tools_gpu_mem=[12.5],
    )  # fmt: skip
    assert load_pool(bare) == load_pool(_json_pool(tmp_path))


def test_what_a_recorded_plan_scored_cost_and_took(tmp_path: Path) -> None:
    (record,) = load_pool(_json_pool(tmp_path))
    assert record.task_score == 0.81
    assert record.price() == v100().pricing.price(250.0, 1690.15625, 0.0, 99.67431640625, 12.5)
    assert record.seconds() == 0.25


class _Spell:
    def __reduce__(self) -> Any:
        return os.system, ("echo never > never",)


@pytest.mark.parametrize("path", ["scores", "plans"])
def test_a_pickle_with_anything_executable_is_refused_before_it_runs(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"asks for (posix|nt)\.system, which is not plain data"):
        load_pool(_pickled_pool(tmp_path / "pool.pkl", **{path: [_Spell()]}))
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    "payload",
    [
        b"cbuiltins\neval\n(S'1'\ntR.", b"cbuiltins\ngetattr\n.", b"c__main__\nx\n.", b"cnumpy\nload\n.", b"", b"\x80\x04.",
        pickle.dumps({"plans": 1}), pickle.dumps(np.array([object()], dtype=object)), b"ccollections\nOrderedDict\n.",
    ],
)  # fmt: skip
def test_other_pickles_are_refused(tmp_path: Path, payload: bytes) -> None:
    (tmp_path / "pool.pkl").write_bytes(payload)
    with pytest.raises(DataError, match=r"pool\.pkl"):
        load_pool(tmp_path / "pool.pkl")


def test_numbers_that_hold_objects_are_refused(tmp_path: Path) -> None:
    payload = b"cnumpy._core.multiarray\nscalar\n(cnumpy\ndtype\n(S'O8'\nI0\nI1\ntRS'x'\ntR."
    (tmp_path / "pool.pkl").write_bytes(payload)
    with pytest.raises(DataError, match="numbers of type 'O8'"):
        load_pool(tmp_path / "pool.pkl")


def test_a_function_cannot_be_given_a_state(tmp_path: Path) -> None:
    (tmp_path / "pool.pkl").write_bytes(b"c_codecs\nencode\n(N(dS'__doc__'\nS'x'\nstb.")
    with pytest.raises(DataError, match="a state for a function"):
        load_pool(tmp_path / "pool.pkl")


@given(st.data())
def test_a_damaged_pickle_is_a_clear_error_or_still_a_pool(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = _pickled_pool(Path(folder) / "pool.pkl", data.draw(st.integers(0, 5)))
        whole = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        with contextlib.suppress(DataError):
            load_pool(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": math.nan}, "score: expected a finite number, got nan"),
        ({"score_kind": "taste"}, "score_kind: expected 'vit_score', 'bert_score' or 'multi_score', got 'taste'"),
        ({"plan": ["image_denoising"]}, "odd length"),
        ({"plan": ["paint", ["input_of_query"]]}, "unknown tool 'paint'"),
        ({"tool_exec_time_ms": [1.0, 2.0]}, "tool_exec_time_ms: expected 1 values, one per tool, got 2"),
        ({"tool_exec_time_ms": [-1.0]}, r"tool_exec_time_ms\.0: expected a number greater than or equal to 0, got -1"),
        ({"tool_gpu_inst_mb": ["x"]}, r"tool_gpu_inst_mb\.0: expected a valid number, got 'x'"),
        ({"task_id": -1}, "task_id: expected a number greater than or equal to 0, got -1"),
        ({"plan_price_usd": math.inf}, "plan_price_usd"),
    ],
)
def test_wrong_records_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"plan 0: .*{message}"):
        load_pool(_json_pool(tmp_path, **changes))


def test_files_that_are_no_pool(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such plan pool"):
        load_pool(tmp_path / "none.json")
    for text in ("{", "[]", '{"plans": {}}', '{"plans": [3]}', '{"plans": [{}]}'):
        (tmp_path / "pool.json").write_text(text)
        with pytest.raises(DataError, match=r"pool\.json"):
            load_pool(tmp_path / "pool.json")


def test_a_profile_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.json"
    save_profile(v100(), path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match=r"mine\.json.*No space left"):
        save_profile(v100(), path)
    assert path.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["mine.json"]
