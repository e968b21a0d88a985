"""The published back-end over tiny models with random weights, saved and loaded as the real ones are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.opencatp.backends import measures
from costgym.simulators.opencatp.backends.base import ALL_TOOLS, READERS, RESTORERS, TEXT_TOOLS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from costgym.simulators.opencatp.backends import published_networks as networks  # noqa: E402
from costgym.simulators.opencatp.backends.published import Loaded, PublishedBackend  # noqa: E402

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 20, 28, 3), dtype=np.uint8)


def tokenizer() -> object:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["<pad>", "</s>", "<unk>", "<s>", "a", "kite", "in", "the", "snow", "translate", "English", "to", "German", ":"]
    inner = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", bos_token="<s>", model_max_length=32
    )


def save_models(root: Path) -> None:
    """Every model of the registry, tiny, from a config, under `root/<tool>`."""
    t = transformers
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 3}
    names = {0: "kite", 1: "fish", 2: "ball"}
    vit = t.ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16,
                      patch_size=8, num_labels=3, id2label=names, label2id={n: i for i, n in names.items()})  # fmt: skip
    size = {"height": 16, "width": 16}
    t.ViTForImageClassification(vit).save_pretrained(root / "image_classification")
    t.ViTImageProcessorPil(size=size).save_pretrained(root / "image_classification")
    gpt = t.GPT2Config(vocab_size=14, n_embd=16, n_layer=1, n_head=2, n_positions=64, add_cross_attention=True, **special)
    captioner = t.VisionEncoderDecoderModel(encoder=t.ViTModel(vit), decoder=t.GPT2LMHeadModel(gpt))
    captioner.config.decoder_start_token_id = captioner.generation_config.decoder_start_token_id = 3
    captioner.config.pad_token_id = captioner.generation_config.pad_token_id = 0
    captioner.generation_config.eos_token_id = 1
    captioner.save_pretrained(root / "image_captioning")
    t.ViTImageProcessorPil(size=size).save_pretrained(root / "image_captioning")
    backbone = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic",
                              out_features=["stage4"])  # fmt: skip
    detr = t.DetrConfig(backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, d_model=16,
                        encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                        encoder_ffn_dim=16, decoder_ffn_dim=16, num_queries=4, num_labels=3)  # fmt: skip
    t.DetrForObjectDetection(detr).save_pretrained(root / "object_detection")
    t.DetrImageProcessorPil(size={"shortest_edge": 32, "longest_edge": 64}).save_pretrained(root / "object_detection")
    swin = t.Swin2SRConfig(embed_dim=12, depths=[2], num_heads=[2], window_size=4, image_size=16, upscale=2,
                           upsampler="pixelshuffle", num_channels=3)  # fmt: skip
    t.Swin2SRForImageSuperResolution(swin).save_pretrained(root / "image_super_resolution")
    t.Swin2SRImageProcessorPil(size_divisor=8).save_pretrained(root / "image_super_resolution")
    t5 = t.T5Config(vocab_size=14, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0, **special)
    t.T5ForConditionalGeneration(t5).save_pretrained(root / "machine_translation")
    bart = t.BartConfig(vocab_size=14, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=160,
                        decoder_start_token_id=1, forced_bos_token_id=None, **special)  # fmt: skip
    t.BartForConditionalGeneration(bart).save_pretrained(root / "text_summarization")
    bert = t.DistilBertConfig(vocab_size=14, dim=16, n_layers=1, n_heads=2, hidden_dim=16, max_position_embeddings=64,
                              id2label={0: "NEGATIVE", 1: "POSITIVE"}, label2id={"NEGATIVE": 0, "POSITIVE": 1})  # fmt: skip
    t.DistilBertForSequenceClassification(bert).save_pretrained(root / "sentiment_analysis")
    for tool in ("image_captioning", *TEXT_TOOLS):
        tokenizer().save_pretrained(root / tool)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    save_models(folder)
    return folder


def loaders() -> dict[str, object]:
    torch.manual_seed(0)
    small = {"dim": 8, "blocks": (1, 1, 1, 1), "refinement": 1, "heads": (1, 1, 2, 2)}
    return {
        "image_denoising": lambda: Loaded(networks.Restormer(**small)),
        "image_deblurring": lambda: Loaded(networks.Restormer(**small, norm_bias=True)),
        "image_colorization": lambda: Loaded(networks.Siggraph17(width=4)),
    }


@pytest.fixture
def backend(root: Path) -> PublishedBackend:
    return PublishedBackend(root=root, loaders=loaders(), device="cpu", batch_size=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("tool", RESTORERS)
def test_a_restorer_gives_one_image_for_each(backend: PublishedBackend, tool: str) -> None:
    out = backend.run(tool, IMAGES)
    factor = 2 if tool == "image_super_resolution" else 1
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.uint8
    assert out.shape == (3, 20 * factor, 28 * factor, 3)


@pytest.mark.parametrize("tool", READERS + TEXT_TOOLS)
def test_a_reader_or_text_tool_gives_one_text_for_each(backend: PublishedBackend, tool: str) -> None:
    out = backend.run(tool, IMAGES if tool in READERS else ["a kite", "in the snow", "a kite in the snow"])
    assert len(out) == 3
    assert all(isinstance(t, str) for t in out)
    assert out == backend.run(tool, IMAGES if tool in READERS else ["a kite", "in the snow", "a kite in the snow"])


def test_labels_are_the_models_own_words(backend: PublishedBackend) -> None:
    assert set(backend.run("image_classification", IMAGES)) <= {"kite", "fish", "ball"}
    assert set(backend.run("sentiment_analysis", ["a kite"])) <= {"positive", "negative"}


def test_the_least_recently_used_model_leaves_first() -> None:
    made = loaders()
    sizes = {tool: make().size_mb for tool, make in made.items()}  # type: ignore[operator]
    limit = sizes["image_denoising"] + sizes["image_deblurring"] + 1e-3
    backend = PublishedBackend(loaders=made, memory_limit_mb=limit, device="cpu")  # type: ignore[arg-type]
    for tool in ("image_denoising", "image_deblurring", "image_denoising"):
        backend.run(tool, IMAGES)
    assert backend.in_memory == ("image_deblurring", "image_denoising")
    backend.run("image_colorization", IMAGES)
    assert "image_colorization" in backend.in_memory
    assert "image_deblurring" not in backend.in_memory


def test_a_model_over_the_limit_is_refused() -> None:
    backend = PublishedBackend(loaders=loaders(), memory_limit_mb=0.001, device="cpu")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="raise the limit"):
        backend.run("image_denoising", IMAGES)


@pytest.mark.parametrize("tool", ALL_TOOLS)
def test_missing_weights_say_where_to_put_them(tmp_path: Path, tool: str) -> None:
    backend = PublishedBackend(root=tmp_path, device="cpu", models={tool: "no-such-maker/no-such-model"})
    inputs = ["a kite"] if tool in TEXT_TOOLS else IMAGES
    with pytest.raises(DataError, match=f"put them at {tmp_path}.no-such-maker.no-such-model"):
        backend.run(tool, inputs)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pth"
    torch.save({"params": networks.Siggraph17(width=2).state_dict()}, path)
    with pytest.raises(DataError, match="another network than Siggraph17"):
        networks.load_file(networks.Siggraph17(width=4), path)
    loaded = networks.load_file(networks.Siggraph17(width=2), path)
    assert not loaded.training


def test_a_weight_file_with_code_in_it_is_not_run(tmp_path: Path) -> None:
    import pickle

    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("ran",)

    path = tmp_path / "bad.pth"
    path.write_bytes(pickle.dumps(Bad()))
    with pytest.raises(DataError, match="not a file of plain weights"):
        networks.load_file(networks.Siggraph17(width=2), path)


def test_published_sizes_are_the_papers() -> None:
    def millions(network: torch.nn.Module) -> float:
        return round(sum(p.numel() for p in network.parameters()) / 1e6, 2)

    with torch.device("meta"):
        assert millions(networks.Restormer()) == 26.11  # Restormer, Table of parameters: 26.1 M
        assert 33.5 < millions(networks.Siggraph17()) < 34.5


def test_an_untrained_colouriser_keeps_the_lightness(backend: PublishedBackend) -> None:
    out = backend.run("image_colorization", np.full((1, 16, 16, 3), 128, np.uint8))
    assert isinstance(out, np.ndarray)
    assert np.abs(measures.lab(out)[..., 0] - 53.6).max() < 8.0


def test_bad_inputs_are_named(backend: PublishedBackend) -> None:
    with pytest.raises(UnknownName, match="image_denoising"):
        backend.run("image_denoise", IMAGES)
    with pytest.raises(DataError, match="expected a list of texts"):
        backend.run("machine_translation", "one text")
    with pytest.raises(DataError, match="uint8"):
        backend.run("image_denoising", IMAGES.astype(np.float32))
