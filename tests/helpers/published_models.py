"""Tiny models with random weights in the places of the published ones, saved and loaded as those are."""

from pathlib import Path

import pytest

from costgym.simulators.opencatp.backends.base import TEXT_TOOLS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from costgym.simulators.opencatp.backends import published_networks as networks  # noqa: E402
from costgym.simulators.opencatp.backends.published import Loaded, PublishedBackend  # noqa: E402


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


def loaders() -> dict[str, object]:
    torch.manual_seed(0)
    small = {"dim": 8, "blocks": (1, 1, 1, 1), "refinement": 1, "heads": (1, 1, 2, 2)}
    return {
        "image_denoising": lambda: Loaded(networks.Restormer(**small)),
        "image_deblurring": lambda: Loaded(networks.Restormer(**small, norm_bias=True)),
        "image_colorization": lambda: Loaded(networks.Siggraph17(width=4)),
    }


def small_published(root: Path) -> PublishedBackend:
    """The published back-end with a small model for every tool, most of them saved under `root`."""
    if not (root / "image_classification").exists():
        save_models(root)
    return PublishedBackend(root=root, loaders=loaders(), device="cpu", batch_size=2)  # type: ignore[arg-type]
