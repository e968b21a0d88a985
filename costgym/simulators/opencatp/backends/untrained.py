"""The published models at full size with untrained weights: what they take in time and memory can be measured without theirs.

Trained weights change what comes out, not what a pass costs. One thing they do change is when a text ends, so here a text gets
a fixed length: a caption 16 tokens, a summary 64, a translation as many as its source, 256 at most.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from costgym.simulators.errors import require
from costgym.simulators.opencatp.backends.published import Loaded

CAPTION_TOKENS = 16
SUMMARY_TOKENS = 64
TRANSLATION_TOKENS = 256
CHARACTERS_PER_TOKEN = 4


def untrained_loaders() -> dict[str, Callable[[], Loaded]]:
    """Loaders of every tool's model with random weights, for `PublishedBackend(loaders=...)`.

    Sources: Restormer and SIGGRAPH17, the papers; the others, the configurations published with `published.MODELS`.
    """
    t = require("transformers", "vision")
    require("torch", "vision")
    from costgym.simulators.opencatp.backends import published_networks as networks

    vit = partial(t.ViTConfig, num_labels=1000)

    def detection() -> Loaded:
        backbone = t.ResNetConfig(depths=[3, 4, 23, 3], out_features=["stage4"])
        config = t.DetrConfig(backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False, num_labels=91)
        return Loaded(t.DetrForObjectDetection(config), t.DetrImageProcessorPil())

    def captioning() -> Loaded:
        decoder = t.GPT2Config(add_cross_attention=True)
        model = t.VisionEncoderDecoderModel(encoder=t.ViTModel(vit()), decoder=t.GPT2LMHeadModel(decoder))
        for config in (model.config, model.generation_config):
            config.decoder_start_token_id = config.pad_token_id = config.eos_token_id = 50256
        return _pinned(Loaded(model, t.ViTImageProcessorPil(), _tokenizer(1024)), lambda _: CAPTION_TOKENS)

    def translation() -> Loaded:
        config = t.T5Config(d_model=768, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0)
        loaded = Loaded(t.T5ForConditionalGeneration(config), None, _tokenizer(512))
        return _pinned(loaded, lambda length: min(length, TRANSLATION_TOKENS))

    def summarization() -> Loaded:
        model = t.BartForConditionalGeneration(t.BartConfig())
        model.generation_config.num_beams = 4
        return _pinned(Loaded(model, None, _tokenizer(1024)), lambda _: SUMMARY_TOKENS)

    return {
        "image_denoising": lambda: Loaded(networks.Restormer()),
        "image_deblurring": lambda: Loaded(networks.Restormer(norm_bias=True)),
        "image_colorization": lambda: Loaded(networks.Siggraph17()),
        "image_super_resolution": lambda: Loaded(
            t.Swin2SRForImageSuperResolution(t.Swin2SRConfig()), t.Swin2SRImageProcessorPil()
        ),
        "image_classification": lambda: Loaded(t.ViTForImageClassification(vit()), t.ViTImageProcessorPil()),
        "object_detection": detection,
        "image_captioning": captioning,
        "machine_translation": translation,
        "text_summarization": summarization,
        "sentiment_analysis": lambda: Loaded(
            t.DistilBertForSequenceClassification(t.DistilBertConfig()), None, _tokenizer(512)
        ),
    }


def _tokenizer(longest: int) -> Any:
    """Cuts a text into pieces of `CHARACTERS_PER_TOKEN` characters, all the same token, `longest` at most."""
    t = require("transformers", "vision")
    tokenizers = require("tokenizers", "vision")
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2}, unk_token="<unk>"))
    piece = tokenizers.Regex(rf"[\s\S]{{1,{CHARACTERS_PER_TOKEN}}}")
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(piece, "isolated")
    return t.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=longest
    )


def _pinned(loaded: Loaded, new_tokens: Callable[[int], int]) -> Loaded:
    """The same model, whose texts end after a number of tokens that follows from the length of the input."""
    generate = loaded.model.generate

    def pinned(inputs: Any, **settings: Any) -> Any:
        count = new_tokens(int(inputs.shape[1]))
        remaining = {
            name: value for name, value in settings.items() if name not in ("max_length", "min_length", "max_new_tokens")
        }
        return generate(inputs, **remaining, min_new_tokens=count, max_new_tokens=count)

    loaded.model.generate = pinned
    return loaded
