"""A GGUF file as a local model: a tiny one with random weights, written here."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from costgym.agents.models.base import USER, Function, Message
from costgym.agents.models.chat_template import CHAT_TEMPLATE
from costgym.agents.models.named import make_real_model, read_model_name
from costgym.simulators.errors import ConfigError

OWN = "{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content }}{% endfor %}"  # as SmolLM2's: it knows of no tools
WIDTH = 32


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gguf = pytest.importorskip("gguf", reason="needs the extra `models`")
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("transformers")
    words = ["<end>", *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), "he"]
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(4096)
    out.add_embedding_length(WIDTH)
    out.add_block_count(1)
    out.add_feed_forward_length(WIDTH)
    out.add_head_count(2)
    out.add_head_count_kv(2)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(WIDTH // 2)
    out.add_vocab_size(len(words))
    out.add_tokenizer_model("gpt2")
    out.add_token_list(words)
    out.add_token_types([3] + [1] * (len(words) - 1))
    out.add_token_merges(["h e"])
    out.add_bos_token_id(0)
    out.add_eos_token_id(0)
    out.add_chat_template(OWN)
    draws = np.random.default_rng(0)
    square = [
        f"blk.0.{part}.weight" for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    ]
    shapes = {**dict.fromkeys(square, WIDTH), "token_embd.weight": len(words), "output.weight": len(words)}
    for name, rows in shapes.items():
        out.add_tensor(name, draws.normal(0, 0.3, (rows, WIDTH)).astype(np.float32))
    for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"):
        out.add_tensor(name, np.ones(WIDTH, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def load(name: str):
    read = read_model_name(name)
    assert read is not None
    return make_real_model(read)


@pytest.mark.slow
def test_a_gguf_file_plays_with_its_digest_checked_and_is_told_its_functions(file: Path) -> None:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    model = load(f"local:{file},sha256={digest},max_tokens=4,device=cpu")
    reply = model.complete([Message(USER, "hello")], [Function("map", "Shows a map.", {"type": "object", "properties": {}})])
    assert model.name == "tiny.gguf" and 0 < reply.usage.output_tokens <= 4
    assert reply.usage.input_tokens > len("Functions:map(): Shows a map.")
    assert model._tokenizer.chat_template == CHAT_TEMPLATE  # its own would not have written them down


@pytest.mark.slow
def test_a_gguf_file_is_unpacked_into_the_type_that_its_name_says(file: Path) -> None:
    torch = pytest.importorskip("torch")
    wide, narrow = (load(f"local:{file},max_tokens=4,device=cpu{more}")._model for more in ("", ",dtype=bfloat16"))
    assert {part.dtype for part in wide.parameters()} == {torch.float32}
    assert {part.dtype for part in narrow.parameters()} == {torch.bfloat16}
    for name, part in narrow.named_parameters():
        assert torch.equal(part, wide.get_parameter(name).to(torch.bfloat16))
    with pytest.raises(ConfigError, match="dtype: expected float32 or bfloat16, got 'float8'"):
        load(f"local:{file},dtype=float8")


def test_another_file_than_the_digest_says_is_refused_before_it_is_read(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected the SHA-256 00ff, got [0-9a-f]{64}; it is another model"):
        load(f"local:{file},sha256=00ff")
    with pytest.raises(ConfigError, match=r"expected a GGUF file or a folder with model.safetensors"):
        load("local:org/model,sha256=00ff")


@pytest.mark.parametrize("bytes_", [b"", b"GGUF", b"not one at all" * 9])
def test_a_file_that_is_cut_off_or_something_else_is_a_configuration_error(tmp_path: Path, bytes_: bytes) -> None:
    pytest.importorskip("gguf", reason="needs the extra `models`")
    pytest.importorskip("transformers")
    (tmp_path / "odd.gguf").write_bytes(bytes_)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load(f"local:{tmp_path / 'odd.gguf'}")


@pytest.mark.slow
def test_a_gguf_file_that_is_cut_off_within_its_weights_is_a_configuration_error(file: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(file.read_bytes()[:-5_000])
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load(f"local:{tmp_path / 'cut.gguf'}")
