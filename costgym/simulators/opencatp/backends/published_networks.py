"""The two published architectures that transformers does not have: Restormer for restoration and SIGGRAPH17 for colourisation.

Written from the papers; modules are named so that the authors' checkpoints fit (`load_file`).

Source: Zamir et al., Restormer, CVPR 2022; Zhang et al., Real-Time User-Guided Image Colorization, SIGGRAPH 2017.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costgym.simulators.errors import DataError, require


class ChannelNorm(nn.Module):  # type: ignore[misc]
    """Layer norm over the channels of an image; without bias it does not subtract the mean."""

    def __init__(self, channels: int, bias: bool) -> None:
        super().__init__()
        self.body = nn.Module()
        self.body.weight = nn.Parameter(torch.ones(channels))
        self.body.bias = nn.Parameter(torch.zeros(channels)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        weight, bias = self.body.weight, self.body.bias
        spread = torch.rsqrt(x.float().var(-1, keepdim=True, unbiased=False) + 1e-5).to(x.dtype)
        x = x * spread * weight if bias is None else (x - x.mean(-1, keepdim=True)) * spread * weight + bias
        return x.permute(0, 3, 1, 2)


class ChannelAttention(nn.Module):  # type: ignore[misc]
    """Attention between channels (not pixels), so its cost is linear in the number of pixels."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Conv2d(channels, 3 * channels, 1, bias=False)
        self.qkv_dwconv = nn.Conv2d(3 * channels, 3 * channels, 3, padding=1, groups=3 * channels, bias=False)
        self.project_out = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        q, k, v = self.qkv_dwconv(self.qkv(x)).view(n, 3, self.heads, c // self.heads, h * w).unbind(1)
        # channels against channels: a matrix of (c, c), whatever the size of the picture
        weights = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature).softmax(-1)
        return self.project_out((weights.to(v.dtype) @ v).reshape(n, c, h, w))


class GatedFeedForward(nn.Module):  # type: ignore[misc]
    """Two branches of depth-wise convolutions, one gating the other."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = int(channels * 2.66)
        self.project_in = nn.Conv2d(channels, 2 * hidden, 1, bias=False)
        self.dwconv = nn.Conv2d(2 * hidden, 2 * hidden, 3, padding=1, groups=2 * hidden, bias=False)
        self.project_out = nn.Conv2d(hidden, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.dwconv(self.project_in(x)).chunk(2, 1)
        return self.project_out(F.gelu(gate) * value)


class RestormerBlock(nn.Module):  # type: ignore[misc]
    """Channel attention and a gated feed-forward, each normalised before and added to its input."""

    def __init__(self, channels: int, heads: int, norm_bias: bool) -> None:
        super().__init__()
        self.norm1 = ChannelNorm(channels, norm_bias)
        self.attn = ChannelAttention(channels, heads)
        self.norm2 = ChannelNorm(channels, norm_bias)
        self.ffn = GatedFeedForward(channels)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class _Resample(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int, up: bool) -> None:
        super().__init__()
        shuffle: nn.Module = nn.PixelShuffle(2) if up else nn.PixelUnshuffle(2)
        self.body = nn.Sequential(nn.Conv2d(channels, channels * 2 if up else channels // 2, 3, 1, 1, bias=False), shuffle)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Restormer(nn.Module):  # type: ignore[misc]
    """Image in [0, 1], (n, 3, h, w), to the restored image; `blocks` and `heads` per level, `refinement` at full size."""

    def __init__(
        self, dim: int = 48, blocks: tuple[int, int, int, int] = (4, 6, 6, 8), refinement: int = 4,
        heads: tuple[int, int, int, int] = (1, 2, 4, 8), norm_bias: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()

        def level(width: int, count: int, head: int) -> nn.Sequential:
            return nn.Sequential(*(RestormerBlock(width, head, norm_bias) for _ in range(count)))

        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, dim, 3, 1, 1, bias=False)
        self.encoder_level1 = level(dim, blocks[0], heads[0])
        self.down1_2 = _Resample(dim, up=False)
        self.encoder_level2 = level(2 * dim, blocks[1], heads[1])
        self.down2_3 = _Resample(2 * dim, up=False)
        self.encoder_level3 = level(4 * dim, blocks[2], heads[2])
        self.down3_4 = _Resample(4 * dim, up=False)
        self.latent = level(8 * dim, blocks[3], heads[3])
        self.up4_3 = _Resample(8 * dim, up=True)
        self.reduce_chan_level3 = nn.Conv2d(8 * dim, 4 * dim, 1, bias=False)
        self.decoder_level3 = level(4 * dim, blocks[2], heads[2])
        self.up3_2 = _Resample(4 * dim, up=True)
        self.reduce_chan_level2 = nn.Conv2d(4 * dim, 2 * dim, 1, bias=False)
        self.decoder_level2 = level(2 * dim, blocks[1], heads[1])
        self.up2_1 = _Resample(2 * dim, up=True)
        self.decoder_level1 = level(2 * dim, blocks[0], heads[0])
        self.refinement = level(2 * dim, refinement, heads[0])
        self.output = nn.Conv2d(2 * dim, 3, 3, 1, 1, bias=False)

    def forward(self, image: Tensor) -> Tensor:
        height, width = image.shape[2:]
        # three levels halve the picture, so its sides are filled up to multiples of 8
        x = F.pad(image, (0, -width % 8, 0, -height % 8), mode="replicate")
        first = self.encoder_level1(self.patch_embed.proj(x))
        second = self.encoder_level2(self.down1_2(first))
        third = self.encoder_level3(self.down2_3(second))
        up = self.up4_3(self.latent(self.down3_4(third)))
        up = self.decoder_level3(self.reduce_chan_level3(torch.cat([up, third], 1)))
        up = self.decoder_level2(self.reduce_chan_level2(torch.cat([self.up3_2(up), second], 1)))
        up = self.refinement(self.decoder_level1(torch.cat([self.up2_1(up), first], 1)))
        return (self.output(up) + x)[:, :, :height, :width]


def _convolutions(widths: list[int], dilation: int = 1, relu_first: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = [nn.ReLU()] if relu_first else []
    for a, b in pairwise(widths):
        layers += [nn.Conv2d(a, b, 3, 1, dilation, dilation), nn.ReLU()]
    return nn.Sequential(*layers, nn.BatchNorm2d(widths[-1]))


class Siggraph17(nn.Module):  # type: ignore[misc]
    """L* (n, 1, h, w) in 0..100 to a*b* (n, 2, h, w); h and w are multiples of 8, `width` the first level's channels."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        a, b, c, d = width, 2 * width, 4 * width, 8 * width
        self.model1 = nn.Sequential(*_convolutions([4, a, a]))
        self.model2 = _convolutions([a, b, b])
        self.model3 = _convolutions([b, c, c, c])
        self.model4 = _convolutions([c, d, d, d])
        self.model5 = _convolutions([d, d, d, d], dilation=2)
        self.model6 = _convolutions([d, d, d, d], dilation=2)
        self.model7 = _convolutions([d, d, d, d])
        self.model8up = nn.Sequential(nn.ConvTranspose2d(d, c, 4, 2, 1))
        self.model3short8 = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1))
        self.model8 = _convolutions([c, c, c], relu_first=True)
        self.model9up = nn.Sequential(nn.ConvTranspose2d(c, b, 4, 2, 1))
        self.model2short9 = nn.Sequential(nn.Conv2d(b, b, 3, 1, 1))
        self.model9 = _convolutions([b, b], relu_first=True)
        self.model10up = nn.Sequential(nn.ConvTranspose2d(b, b, 4, 2, 1))
        self.model1short10 = nn.Sequential(nn.Conv2d(a, b, 3, 1, 1))
        self.model10 = nn.Sequential(nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1), nn.LeakyReLU(0.2))
        self.model_out = nn.Sequential(nn.Conv2d(b, 2, 1), nn.Tanh())

    def forward(self, lightness: Tensor) -> Tensor:
        n, _, h, w = lightness.shape
        hints = lightness.new_zeros(n, 3, h, w)  # no user hints: neither colours nor a mask
        one = self.model1(torch.cat([(lightness - 50) / 100, hints], 1))
        two = self.model2(one[:, :, ::2, ::2])
        three = self.model3(two[:, :, ::2, ::2])
        seven = self.model7(self.model6(self.model5(self.model4(three[:, :, ::2, ::2]))))
        eight = self.model8(self.model8up(seven) + self.model3short8(three))
        nine = self.model9(self.model9up(eight) + self.model2short9(two))
        ten = self.model10(self.model10up(nine) + self.model1short10(one))
        return self.model_out(ten) * 110


def load_file(network: nn.Module, path: Path) -> nn.Module:
    """Load a `.safetensors` or torch file of tensors alone; raises DataError for anything else or another network's."""
    if not path.is_file():
        raise DataError(path, "no such weight file; download the authors' checkpoint and name its path")
    try:
        if path.suffix == ".safetensors":
            state: dict[str, Any] = require("safetensors.torch", "vision").load_file(str(path))
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and safetensors errors have no common base
        raise DataError(path, f"not a file of plain weights ({error})") from error
    state = state.get("params", state)
    expected = network.state_dict()
    # a classifier that only training needs comes with some checkpoints
    state = {k: v for k, v in state.items() if not k.startswith("model_class")}
    wrong = sorted(
        k for k in expected.keys() | state.keys() if k not in expected or k not in state or expected[k].shape != state[k].shape
    )
    if wrong:
        raise DataError(path, f"expected weights of {type(network).__name__}", wrong[0])
    network.load_state_dict(state)
    return network.eval()
