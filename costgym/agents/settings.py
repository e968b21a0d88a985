"""Settings of trained policies, and `config.json`, the file in which a training run says what it is."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from costgym.agents.networks import SMALL_MODELS
from costgym.simulators import __version__, same_world
from costgym.simulators.bounds import Amount, Count, Number, Settings, what_is_wrong
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.files import decode_json, read_text
from costgym.simulators.scenario import Scenario

FORMAT = "costgym.training/1"
CONFIG = "config.json"
MAX_CONFIG_BYTES = 16 * 2**20


class TrainerSettings(Settings):
    """Base of a trainer's settings: everything that its result depends on, besides the world it learns in."""

    seed: int = Field(default=0, ge=0, lt=2**62, description="Seed of everything that is drawn; same seed, same weights.")


class NetworkSettings(Settings):
    """Shape of the marketplace network, `ToolNetwork`."""

    hidden_size: int = Field(default=64, ge=1, le=4096, description="Width of every layer of the network.")
    rounds: int = Field(default=2, ge=1, le=4096, description="How often tools and needs exchange what they know.")


class LanguageModelSettings(TrainerSettings):
    """Settings that trainers of language models share: sizes of a small model, adapters of a published one, and AdamW."""

    model: str | None = Field(
        default=None, description="llama or gpt2 for a small one, or a published causal model by id or folder."
    )
    hidden_size: Count = Field(default=128, description="Width of a small model.")
    layers: Count = Field(default=3, description="Layers of a small model.")
    heads: Count = Field(default=4, description="Attention heads of a small model.")
    lora_rank: Number = Field(default=16, description="Rank of a published model's adapters; 0 trains it in full.")
    bf16: bool = Field(
        default=True,
        description="Published model: multiply matrices in bfloat16, in which weights that adapters stand on are kept too.",
        exclude_if=bool,
    )
    learning_rate: Amount | None = Field(
        default=None, description="Peak rate of AdamW; by default 2e-3 for a small model, less for a published one."
    )
    max_grad_norm: Amount = Field(default=1.0, description="Norm to which gradients are clipped.")
    warmup_steps: Number = Field(default=50, description="Steps over which the rate rises; it then falls.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % (2 * self.heads):  # rotary attention needs an even width of each head
            raise ConfigError("hidden_size", f"expected a multiple of twice the {self.heads} heads, got {self.hidden_size}")
        return self

    @property
    def small(self) -> bool:
        """The model is made from a config."""
        return self.model is None or self.model in SMALL_MODELS

    def peak(self, published: float) -> float:
        """Return the highest learning rate, where a published model has that one by default."""
        return self.learning_rate if self.learning_rate is not None else 2e-3 if self.small else published


class PolicyConfig(BaseModel):
    """The `config.json` of a training run: enough to rebuild its policy, and to tell the run from others.

    Each kind of policy has a subclass that narrows the fields. Fields that are left to their defaults when a run is opened are
    worked out during the run; they do not tell it from others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    other_envs: ClassVar[tuple[str, ...]] = ()  # that policies of this kind may have learnt in, besides the usual one
    format: str = Field(default=FORMAT, description="Version of this format.")
    version: str = Field(default=__version__, description="Version of costgym that wrote the file.")
    trainer: str = Field(description="Name of the trainer, as in `costgym train NAME`.")
    env: str = Field(description="Id of the environment that the policy plays in.")
    scenario: Scenario | None = Field(default=None, description="World that the policy learns in; null where none is named.")
    data: tuple[str, ...] = Field(default=(), description="Names and digests of the recorded data that the policy learns from.")
    settings: Any = Field(description="Settings of the trainer.")


Config = TypeVar("Config", bound=PolicyConfig)


def read_config(run: str | Path, kind: type[Config]) -> Config:
    """The config of a run's folder; raises DataError where there is none of this kind, environment and version."""
    path = Path(run) / CONFIG
    trainers = get_args(kind.model_fields["trainer"].annotation)
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise DataError(path, f"is larger than {MAX_CONFIG_BYTES} bytes, more than any training run of costgym writes")
        document: Any = decode_json(read_text(path, MAX_CONFIG_BYTES, follow=False))
    except FileNotFoundError:
        problem = f"no training run: {CONFIG} is missing; expected the folder of a `costgym train {' or '.join(trainers)}` run"
        raise DataError(run, problem) from None
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise DataError(path, f"is not valid JSON ({error}); train the policy again") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        actual = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise DataError(path, f"expected format {FORMAT!r}, got {actual!r}; train the policy again with this version", "format")
    version = str(document.get("version"))
    if not same_world(version):
        raise DataError(path, f"was written by costgym {version}, not {__version__}; use the former or train again", "version")
    # format, version, trainer and environment first, so that the error names the cause and not one of its many symptoms
    if document.get("trainer") not in trainers:
        raise DataError(path, f"expected a run of {' or '.join(trainers)}, got one of {document.get('trainer')!r}", "trainer")
    env = kind.model_fields["env"].default
    if document.get("env") not in (env, *kind.other_envs):
        raise DataError(path, f"expected a policy for {env}, got one for {document.get('env')!r}", "env")
    try:
        config = kind.model_validate(document)
    except ValidationError as error:
        field, problem = what_is_wrong(error)
        raise DataError(path, problem, field) from None
    except (ConfigError, UnknownName) as error:
        raise DataError(path, str(error), "settings") from None
    missing = _missing_fields(config.settings)
    if missing:
        raise DataError(path, f"expected exactly the settings of this version; missing: {', '.join(missing)}", "settings")
    return config


def differences(there: PolicyConfig, wanted: PolicyConfig) -> list[str]:
    """List the settings in which a run differs from the one that is asked for, each as ``name VALUE there, VALUE asked``."""
    mine, other = dict(_flat_fields(there, wanted.model_fields_set)), dict(_flat_fields(wanted, wanted.model_fields_set))
    return [
        f"{name} {mine.get(name)!r} there, {other.get(name)!r} asked"
        for name in dict.fromkeys([*other, *mine])
        if mine.get(name) != other.get(name)
    ]


def _flat_fields(config: PolicyConfig, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    for name in type(config).model_fields:
        if name in names:
            value = getattr(config, name)
            if name == "settings":
                yield from dict(value).items()
            else:
                yield name, f"{value.name} {value.digest}" if isinstance(value, Scenario) else value


def _missing_fields(settings: Any) -> list[str]:
    """Fields that a record must have and has not; those that are left out at their default need not be there."""
    if not isinstance(settings, Settings):
        return []
    needed = {name for name, field in type(settings).model_fields.items() if field.exclude_if is None}
    return sorted(needed - settings.model_fields_set)
