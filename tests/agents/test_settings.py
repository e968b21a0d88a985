"""Settings of trained policies, and the config of their runs: wrong ones are refused in a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.catp.settings import CatpConfig, CatpSettings
from costgym.agents.deer.settings import DeerConfig, DeerSettings
from costgym.agents.settings import PolicyConfig, read_config
from costgym.agents.toolplanner.settings import LearntSettings, PlannerConfig
from costgym.experiments.train.grpo.settings import GrpoConfig, GrpoSettings
from costgym.experiments.train.sb3.settings import DqnSettings, Lagrangian, PpoSettings
from costgym.experiments.train.usefulness.settings import UsefulnessConfig, UsefulnessSettings
from costgym.simulators.bounds import Settings
from costgym.simulators.errors import ConfigError, DataError, UnknownName

SETTINGS: list[type[Settings]] = [
    PpoSettings, DqnSettings, CatpSettings, DeerSettings, LearntSettings, UsefulnessSettings, GrpoSettings,
]  # fmt: skip
CONFIGS: list[PolicyConfig] = [
    CatpConfig(trainer="ift", settings=CatpSettings(method="ift"), target_return=0.25),
    DeerConfig(settings=DeerSettings(), slots=5, common=("the",)),
    PlannerConfig(settings=LearntSettings(levels=["tool"]), stage=2),  # type: ignore[arg-type]
    UsefulnessConfig(settings=UsefulnessSettings(), numbers=("bias",)),
    GrpoConfig(settings=GrpoSettings(), tasks=("a",)),
]


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_setting_says_what_it_is(kind: type[Settings]) -> None:
    assert all((field.description or "").endswith(".") for field in kind.model_fields.values())
    with pytest.raises(Exception, match="frozen"):
        kind().seed = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"steps": 0}, "steps: expected a number greater than or equal to 1, got 0"),
        ({"steps": True}, "steps: expected a valid integer, got True"),
        ({"steps": 2.0}, "steps: expected a valid integer, got 2.0"),
        ({"alpha": float("nan")}, "alpha: expected a finite number, got nan"),
        ({"mask": 1}, "mask: expected a valid boolean, got 1"),
        ({"elite": 1.5}, "elite: expected a number less than or equal to 1, got 1.5"),
        ({"tasks": "some"}, "tasks: expected 'sequential', 'nonsequential' or 'all', got 'some'"),
        ({"widht": 3}, "widht: no such setting; known: alpha, balance"),
        ({"warmup_step": 3}, r"warmup_step: no such setting; did you mean warmup_steps\? known"),
        ({"hidden_size": 50}, "hidden_size: expected a multiple of twice the 4 heads, got 50"),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_expected_and_what_came(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CatpSettings(**values)


def test_an_unknown_name_is_offered_the_nearest() -> None:
    with pytest.raises(UnknownName, match="nearest: price"):
        Lagrangian(limit=1.0, resource="prize")


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.trainer)
def test_what_a_run_says_is_read_back(config: PolicyConfig, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config.model_dump_json())
    assert read_config(tmp_path, type(config)) == config


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.trainer)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "costgym.catp/1"}, "format: expected format 'costgym.training/1', got 'costgym.catp/1'"),
        ({"version": "9.9.0"}, "version: was written by costgym 9.9.0"),
        ({"trainer": "sac"}, "trainer: expected a run of .*, got one of 'sac'"),
        ({"env": "costgym/Nowhere-v0"}, "env: expected a policy for costgym/.*, got one for 'costgym/Nowhere-v0'"),
        ({"settings": {"seed": 3}}, "settings: expected exactly the settings of this version; missing: "),
        ({"settings": {"seed": -3}}, "settings: seed: expected a number greater than or equal to 0, got -3"),
        ({"surprise": 1}, "surprise: unknown field"),
    ],
)
def test_a_config_of_another_kind_is_refused_by_field(
    config: PolicyConfig, change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config.model_dump(mode="json") | change))
    with pytest.raises(DataError, match=rf"config\.json, {words}"):
        read_config(tmp_path, type(config))


@pytest.mark.parametrize("text", ["", "[", "[]", "null", '"x"', "[" * 100_000])
def test_an_invalid_config_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DataError):
        read_config(tmp_path, DeerConfig)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no training run: config.json is missing; expected .* `costgym train deer`"):
        read_config(tmp_path, DeerConfig)
