"""The tiny back-end's networks: restoration, reading images, and text, all in plain PyTorch.

Every network is fully convolutional where it sees an image, so any height and width of at least 8 px will do.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LUMA = (0.299, 0.587, 0.114)


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Two 3x3 convolutions around a ReLU, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.second(F.relu(self.first(x)))


class RestorationNet(nn.Module):  # type: ignore[misc]
    """A residual U-Net on 2x2 pixel blocks, of these channels per level: image in, repaired image of the same size out.

    With `chroma_only` the luma stays (colourisation). `inverse` (size, size) undoes a known blur where nothing else is wrong:
    the network sees what it makes of the input beside the input itself, and learns when to trust it.
    """

    def __init__(self, widths: tuple[int, ...] = (40, 64), chroma_only: bool = False, inverse: Tensor | None = None) -> None:
        super().__init__()
        self.chroma_only = chroma_only
        self.multiple = 2 ** len(widths)
        self.inverse = None if inverse is None else nn.Parameter(inverse.clone()[None, None])
        self.enter = nn.Conv2d(12 if inverse is None else 24, widths[0], 3, padding=1)
        self.down_blocks = nn.ModuleList([ResidualBlock(w) for w in widths[:-1]])
        self.down = nn.ModuleList([nn.Conv2d(a, b, 2, stride=2) for a, b in pairwise(widths)])
        self.middle = nn.Sequential(ResidualBlock(widths[-1]), ResidualBlock(widths[-1]), ResidualBlock(widths[-1]))
        self.up = nn.ModuleList([nn.Conv2d(b, 4 * a, 1) for a, b in pairwise(widths)])
        self.up_blocks = nn.ModuleList([ResidualBlock(w) for w in widths[:-1]])
        self.leave = nn.Sequential(ResidualBlock(widths[0]), nn.Conv2d(widths[0], 12, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, 3, h, w) in [0, 1] to images of the same shape, not clipped."""
        height, width = x.shape[2:]
        padded = F.pad(x, (0, -width % self.multiple, 0, -height % self.multiple), mode="replicate")
        seen = padded - 0.5
        if self.inverse is not None:
            reach = self.inverse.shape[-1] // 2
            planes = F.pad(padded, (reach, reach, reach, reach), mode="replicate").flatten(0, 1)[:, None]
            seen = torch.cat([seen, F.conv2d(planes, self.inverse).reshape(padded.shape) - padded], 1)
        # blocks of 2 x 2 pixels as channels: a quarter of the work at full resolution
        h = self.enter(F.pixel_unshuffle(seen, 2))
        skips = []
        for block, down in zip(self.down_blocks, self.down, strict=True):
            h = block(h)
            skips.append(h)
            h = down(F.relu(h))
        h = self.middle(h)
        for block, up, skip in zip(reversed(self.up_blocks), reversed(self.up), reversed(skips), strict=True):
            h = block(F.pixel_shuffle(up(h), 2) + skip)
        change = F.pixel_shuffle(self.leave(h), 2)[:, :, :height, :width]
        if self.chroma_only:
            # the correction loses its brightness, which the grey image has right already
            luma = torch.tensor(LUMA, device=x.device, dtype=change.dtype)[:, None, None]
            change = change - (change * luma).sum(1, keepdim=True)
        return x + change


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class Trunk(nn.Module):  # type: ignore[misc]
    """The features that all image readers share, at a quarter and at an eighth of the image's size."""

    WIDTHS = (64, 96)

    def __init__(self) -> None:
        super().__init__()
        self.quarter = nn.Sequential(_conv(3, 20), _conv(20, 32, 2), _conv(32, 32), _conv(32, 64, 2), _conv(64, 64))
        self.eighth = nn.Sequential(_conv(64, 96, 2), _conv(96, 96))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        quarter = self.quarter((x - 0.5) * 4)
        return quarter, self.eighth(quarter)


def _pooled(features: tuple[Tensor, ...]) -> Tensor:
    """Means and maxima of features over their image, (n, 2 * channels)."""
    return torch.cat([p for f in features for p in (f.mean((2, 3)), f.amax((2, 3)))], 1)


class Classifier(nn.Module):  # type: ignore[misc]
    """Image to the logits of kind and of texture, whose pair is the label."""

    def __init__(self, kinds: int, textures: int) -> None:
        super().__init__()
        self.trunk = Trunk()
        features = 2 * sum(Trunk.WIDTHS)
        self.kind, self.texture = nn.Linear(features, kinds), nn.Linear(features, textures)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pooled = _pooled(self.trunk(x))
        return self.kind(pooled), self.texture(pooled)


class Detector(nn.Module):  # type: ignore[misc]
    """Image to a grid at a quarter of its size: per cell a logit for each object's centre, and the box around it."""

    def __init__(self, objects: int) -> None:
        super().__init__()
        self.objects = objects
        self.trunk = Trunk()
        self.lift = nn.Conv2d(96, 64, 1)
        self.neck = _conv(64, 64)
        self.head = nn.Conv2d(64, objects + 4, 1)
        nn.init.constant_(self.head.bias[:objects], -3.0)  # centres are rare

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Centre logits (n, objects, h/4, w/4) and distances to left, top, right, bottom in px (n, 4, h/4, w/4)."""
        quarter, eighth = self.trunk(x)
        raised = F.interpolate(self.lift(eighth), size=quarter.shape[2:], mode="bilinear", align_corners=False)
        out = self.head(self.neck(quarter + raised))
        return out[:, : self.objects], F.softplus(out[:, self.objects :]) * 4


class AttentionDecoder(nn.Module):  # type: ignore[misc]
    """Words one by one: a recurrent network whose state asks the cells it attends to."""

    def __init__(self, cells: int, vocabulary: int, hidden: int, embedding: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.memory = nn.GRU(embedding, hidden, batch_first=True)
        self.query = nn.Linear(hidden, cells)
        self.mix = nn.Linear(hidden + cells, hidden)
        self.out = nn.Linear(hidden, vocabulary)

    def forward(self, cells: Tensor, mask: Tensor, state: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (n, length, vocabulary) of the next word after each of `words` (n, length), and the last state.

        `cells` (n, cells, width) are attended to where `mask` is true; `state` is (1, n, hidden).
        """
        states, state = self.memory(self.embed(words), state)
        scores = torch.einsum("nch,nth->ntc", cells, self.query(states)) * cells.shape[2] ** -0.5
        weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(2)
        context = torch.einsum("ntc,nch->nth", weights, cells)
        return self.out(torch.tanh(self.mix(torch.cat([states, context], 2)))), state


class Captioner(nn.Module):  # type: ignore[misc]
    """Image to words: a decoder that attends to the trunk's grid."""

    def __init__(self, vocabulary: int, hidden: int = 128, embedding: int = 48) -> None:
        super().__init__()
        self.trunk = Trunk()
        self.keys = nn.Linear(sum(Trunk.WIDTHS) + 2, hidden)
        self.start = nn.Linear(2 * sum(Trunk.WIDTHS), hidden)
        self.decoder = AttentionDecoder(hidden, vocabulary, hidden, embedding)

    def see(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The grid to attend to (n, cells, hidden), its mask, and the decoder's first state."""
        quarter, eighth = self.trunk(x)
        grid = torch.cat([F.adaptive_max_pool2d(quarter, eighth.shape[2:]), eighth], 1)
        n, _, h, w = grid.shape
        rows = torch.linspace(-1, 1, h, device=x.device).view(1, 1, h, 1).expand(n, 1, h, w)
        columns = torch.linspace(-1, 1, w, device=x.device).view(1, 1, 1, w).expand(n, 1, h, w)
        cells = torch.tanh(self.keys(torch.cat([grid, rows, columns], 1).flatten(2).transpose(1, 2)))
        return (
            cells,
            torch.ones(cells.shape[:2], dtype=torch.bool, device=x.device),
            torch.tanh(self.start(_pooled((quarter, eighth))))[None],
        )


def _encoded(encoder: nn.GRU, words: Tensor, mask: Tensor) -> Tensor:
    """States (n, length, width) of embedded words (n, length, width), of which those count where `mask` is true."""
    packed = nn.utils.rnn.pack_padded_sequence(words, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    return nn.utils.rnn.pad_packed_sequence(encoder(packed)[0], batch_first=True, total_length=mask.shape[1])[0]


class Seq2Seq(nn.Module):  # type: ignore[misc]
    """Words to words: a bidirectional recurrent encoder and a decoder that attends to it (translation, summaries)."""

    def __init__(self, source: int, target: int, hidden: int = 128, embedding: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(source, embedding, padding_idx=0)
        self.encoder = nn.GRU(embedding, hidden // 2, batch_first=True, bidirectional=True)
        self.start = nn.Linear(hidden, hidden)
        self.decoder = AttentionDecoder(hidden, target, hidden, embedding)

    def see(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Encoded words (n, length, hidden), where words are (n, length), and the decoder's first state."""
        mask = source != 0
        cells = _encoded(self.encoder, self.embed(source), mask)
        mean = (cells * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return cells, mask, torch.tanh(self.start(mean))[None]


class SentimentNet(nn.Module):  # type: ignore[misc]
    """Words to the logits of positive and negative: a recurrent encoder, so that a negation is read with what it negates."""

    def __init__(self, vocabulary: int, hidden: int = 32, embedding: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.encoder = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, 2)

    def forward(self, words: Tensor) -> Tensor:
        mask = words != 0
        states = _encoded(self.encoder, self.embed(words), mask)
        return self.out(states.masked_fill(~mask[..., None], -1e4).amax(1))
