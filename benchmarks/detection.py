"""A detector like YOLO, trained here on shapes that are drawn here: what quantization costs in mean average precision.

    python benchmarks/detection.py FOLDER

The network has separable convolutions, SiLU, two levels of features, heads apart for boxes and classes, and sides of boxes as
expected values over bins (DFL). It is trained once for some minutes, into FOLDER, and exported by torch. 128 images calibrate,
1,000 others are measured, all drawn from seeds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import process
import torch
import zoo
from tables import Table, update
from torch import Tensor, nn
from torch.nn import functional

Array = np.ndarray[Any, np.dtype[Any]]

SIDE = 64
"""Height and width of an image."""
CLASSES = ("circle", "square", "triangle")
BINS = 8
STRIDES = (8, 16)
TRAINING, CALIBRATION, MEASURED = 8192, 128, 1000
STEPS, BATCH = 4000, 64
WIDE = (onnx.TensorProto.INT16, onnx.TensorProto.UINT16)
OURS: Sequence[Sequence[str]] = ((), ("--effort=0",), ("--effort=0", "--recipe=detection"))
PEERS = {
    "onnxruntime MinMax": "quantize_static",
    "onnxruntime Percentile": "quantize_static Percentile",
    "nncf": "nncf",
}
"""Names on the page, and the scripts with their arguments."""
TABLE = Table(
    zoo.PAGE,
    "detector",
    "detection",
    (
        *("file", "mAP at 0.5", "mAP at 0.5 to 0.95", "SQNR dB"),
        *("points of 16 bits", "convolutions in integers", "kB", "cpu s"),
    ),
)
GRID = np.indices((SIDE, SIDE)).astype(np.float32) + 0.5


class Shapes(NamedTuple):
    """The objects of one image: boxes [n, 4] as left, top, right, bottom in pixels, and classes [n]."""

    boxes: Array
    classes: Array


def drawn(seed: int, count: int) -> tuple[Array, list[Shapes]]:
    """Images, float32 [count, 3, SIDE, SIDE] between 0 and 1, and what is on them."""
    rng = np.random.default_rng(seed)
    images = np.empty((count, 3, SIDE, SIDE), np.float32)
    shapes = [_draw(rng, image) for image in images]
    return images, shapes


def _draw(rng: np.random.Generator, image: Array) -> Shapes:
    """Fill one image: a texture of patches, stripes and noise, and one to five shapes that hardly overlap."""
    y, x = GRID
    coarse = rng.uniform(0.2, 0.8, (3, 8, 8)).repeat(SIDE // 8, 1).repeat(SIDE // 8, 2)
    across = np.cos(rng.uniform(0, np.pi)) * x + np.sin(rng.uniform(0, np.pi)) * y
    stripes = 0.12 * np.sin(2 * np.pi * across / rng.uniform(4, 16))
    image[:] = rng.uniform(0.2, 0.8, (3, 1, 1)) * 0.6 + 0.4 * coarse + stripes
    boxes, classes = [], []
    for _ in range(int(rng.integers(1, 6))):
        size, kind = rng.uniform(8, 30), int(rng.integers(len(CLASSES)))
        left, top = rng.uniform(0, SIDE - size, 2)
        box = np.array([left, top, left + size, top + size])
        if boxes and overlaps(box[None], np.array(boxes)).max() > 0.1:
            continue
        u, v = (x - left) / size, (y - top) / size
        inside = (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1)
        inside &= ((u - 0.5) ** 2 + (v - 0.5) ** 2 <= 0.25, inside, 2 * np.abs(u - 0.5) <= v)[kind]
        color = rng.uniform(0, 1, 3)
        image[:, inside] = (color[:, None, None] + 0.5 * stripes)[:, inside]
        boxes.append(box)
        classes.append(kind)
    image += rng.normal(0, 0.04, image.shape)
    np.clip(image, 0, 1, image)
    return Shapes(np.array(boxes, np.float32), np.array(classes))


def overlaps(a: Array, b: Array) -> Array:
    """The intersection over the union of boxes [n, 4] and [m, 4]: [n, m]."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [(each[:, 2:] - each[:, :2]).prod(-1) for each in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)


# the network


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.SiLU())


def _separable(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(_conv(inputs, inputs, 3, stride, inputs), _conv(inputs, outputs))


class _Residual(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.body = _separable(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Detector(nn.Module):
    """Images [n, 3, SIDE, SIDE] in; boxes and scores [n, 4 + classes, anchors] out, boxes as left, top, right, bottom."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            *(_conv(3, 16, 3, 2), _separable(16, 32, 2), _Residual(32), _separable(32, 64, 2), _Residual(64))
        )
        self.coarse = nn.Sequential(_separable(64, 96, 2), _Residual(96))
        self.lateral = _conv(96, 64)
        self.merge = _separable(128, 64)
        self.down = _separable(64, 64, 2)
        self.deep = _separable(160, 96)
        self.boxes, self.classes = (
            nn.ModuleList(self._head(channels, outputs) for channels in (64, 96))
            for outputs in (4 * BINS, len(CLASSES))
        )
        self.expected = nn.Conv2d(BINS, 1, 1, bias=False).requires_grad_(False)
        self.expected.weight.data[:] = torch.arange(BINS).view(1, BINS, 1, 1)
        self.centers, self.sizes = anchors()
        for name, parameter in self.classes.named_parameters():
            if name.endswith("2.bias"):
                nn.init.constant_(parameter, -4.0)  # few of the anchors have an object

    @staticmethod
    def _head(channels: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(_separable(channels, 48), _separable(48, 48), nn.Conv2d(48, outputs, 1))

    def raw(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of bins [n, 4 * BINS, anchors] and of classes [n, classes, anchors]."""
        fine = self.fine(images)
        coarse = self.coarse(fine)
        up = functional.interpolate(self.lateral(coarse), scale_factor=2.0, mode="nearest")
        fine = self.merge(torch.cat([up, fine], 1))
        levels = fine, self.deep(torch.cat([self.down(fine), coarse], 1))
        bins, scores = (
            torch.cat([head(level).flatten(2) for head, level in zip(heads, levels, strict=True)], 2)
            for heads in (self.boxes, self.classes)
        )
        return bins, scores

    def sides(self, bins: Tensor) -> Tensor:
        """Boxes [n, 4, anchors] of logits of bins."""
        shares = bins.view(-1, 4, BINS, bins.shape[-1]).transpose(1, 2).softmax(1)
        sides = self.expected(shares).view(-1, 4, bins.shape[-1]) * self.sizes
        return torch.cat([self.centers - sides[:, :2], self.centers + sides[:, 2:]], 1)

    def forward(self, images: Tensor) -> Tensor:
        bins, scores = self.raw(images)
        return torch.cat([self.sides(bins), scores.sigmoid()], 1)


def anchors() -> tuple[Tensor, Tensor]:
    """The centers of all cells in pixels [2, anchors], x first, and the strides of their levels [anchors]."""
    centers, sizes = [], []
    for stride in STRIDES:
        y, x = np.indices((SIDE // stride, SIDE // stride)).reshape(2, -1)
        centers.append(np.stack([x, y]) * stride + stride / 2)
        sizes.append(np.full(x.size, stride))
    return torch.tensor(np.concatenate(centers, 1), dtype=torch.float32), torch.tensor(np.concatenate(sizes)).float()


# training


def targets(shapes: Sequence[Shapes]) -> tuple[Array, Array]:
    """Boxes [n, 4, anchors] and classes [n, anchors], -1 where there is none: the cells near the middle of an object, of the
    level that its size belongs to.
    """
    centers, sizes = (each.numpy() for each in anchors())
    boxes = np.zeros((len(shapes), 4, sizes.size), np.float32)
    classes = np.full((len(shapes), sizes.size), -1)
    for i, (found, kinds) in enumerate(shapes):
        for box, kind in zip(found, kinds, strict=True):
            stride = STRIDES[int(box[2] - box[0] > 18)]
            middle = (box[:2] + box[2:]) / 2
            near = (np.abs(centers - middle[:, None]) < stride).all(0) & (sizes == stride)
            boxes[i, :, near] = box
            classes[i, near] = kind
    return boxes, classes


def loss_of(model: Detector, images: Tensor, boxes: Tensor, classes: Tensor) -> Tensor:
    """The sum of the losses of classes, overlaps and bins. A score should be the overlap of its box."""
    bins, scores = model.raw(images)
    found = model.sides(bins)
    positive = classes >= 0
    ours, theirs = (each.transpose(1, 2)[positive] for each in (found, boxes))
    overlap, penalty = _overlap(ours, theirs)
    wanted = torch.zeros_like(scores)
    image, anchor = positive.nonzero(as_tuple=True)
    wanted[image, classes[positive], anchor] = overlap.detach().clamp(0.1, 1)
    count = positive.sum().clamp(min=1)
    weight = (scores.sigmoid() - wanted).abs().detach() ** 1.5 + (wanted > 0)
    of_classes = (weight * functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none")).sum() / count
    centers, sizes = model.centers.T[anchor], model.sizes[anchor, None]
    sides = torch.cat([centers - theirs[:, :2], theirs[:, 2:] - centers], 1) / sizes
    return of_classes + 1.5 * (1 - overlap + penalty).mean() + 0.5 * _bins(bins, image, anchor, sides)


def _overlap(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The intersection over the union of pairs of boxes, and which share of the smallest box around both is empty (GIoU)."""
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
    around = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(1)
    union = sum((each[:, 2:] - each[:, :2]).prod(1) for each in (a, b)) - shared
    return shared / union, 1 - union / around


def _bins(bins: Tensor, image: Tensor, anchor: Tensor, sides: Tensor) -> Tensor:
    """The divergence of bins from the two around each side."""
    logits = bins.view(-1, 4, BINS, bins.shape[-1])[image, :, :, anchor].log_softmax(-1)
    sides = sides.clamp(0, BINS - 1.01)
    low = sides.long()
    share = sides - low
    lower, upper = (-logits.gather(-1, (low + i)[..., None])[..., 0] for i in (0, 1))
    return ((1 - share) * lower + share * upper).mean()


def trained(folder: Path) -> Detector:
    """The network with the weights in the folder, or trained now."""
    torch.manual_seed(0)
    model, weights = Detector(), folder / "detector.pt"
    if weights.exists():
        model.load_state_dict(torch.load(weights, weights_only=True))
        return model.eval()
    images, shapes = drawn(1, TRAINING)
    boxes, classes = map(torch.from_numpy, targets(shapes))
    inputs, rng = torch.from_numpy(images), torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 2e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, STEPS, pct_start=0.1)
    start, shown = time.monotonic(), 0.0
    for step in range(STEPS):
        chosen = torch.randint(TRAINING, (BATCH,), generator=rng)
        loss = loss_of(model, inputs[chosen], boxes[chosen], classes[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        shown += loss.item()
        if step % 200 == 199:
            print(f"step {step + 1}: loss {shown / 200:.3f}, {time.monotonic() - start:.0f} s", flush=True)
            shown = 0.0
    torch.save(model.state_dict(), weights)
    return model.eval()


# precision


def detections(output: Array) -> list[tuple[Array, Array, Array]]:
    """Boxes [n, 4], scores [n] and classes [n] of each image, the best first; of boxes of a class that overlap, the best."""
    found = []
    for each in output:
        cells, kinds = np.nonzero(each[4:].T > 0.01)
        scores = each[4 + kinds, cells]
        order = np.argsort(-scores, kind="stable")[:100]
        boxes, scores, kinds = each[:4, cells[order]].T, scores[order], kinds[order]
        rival = (overlaps(boxes, boxes) > 0.6) & (kinds[:, None] == kinds)
        kept: list[int] = []
        for i in range(len(boxes)):
            if not rival[i, kept].any():
                kept.append(i)
        found.append((boxes[kept], scores[kept], kinds[kept]))
    return found


def precision(output: Array, shapes: Sequence[Shapes]) -> Array:
    """The mean over classes of the average precision at overlaps of 0.5, 0.55, ..., 0.95, as COCO has it: the best precision
    at 101 recalls or more.
    """
    found, levels = detections(output), np.linspace(0.5, 0.95, 10)
    of_classes = []
    for kind in range(len(CLASSES)):
        scores, hits = [np.zeros(0)], [np.zeros((len(levels), 0), bool)]
        for (boxes, sure, kinds), truth in zip(found, shapes, strict=True):
            own, right = boxes[kinds == kind], truth.boxes[truth.classes == kind]
            scores.append(sure[kinds == kind])
            hits.append(np.stack([_hits(own, right, level) for level in levels]))
        order = np.argsort(-np.concatenate(scores), kind="stable")
        right = np.concatenate(hits, 1)[:, order].cumsum(1)
        total = sum(int((truth.classes == kind).sum()) for truth in shapes)
        of_classes.append([_average(each, total) for each in right])
    return np.mean(of_classes, 0)


def _hits(boxes: Array, right: Array, level: float) -> Array:
    """Which boxes, the best first, are the first of an object that they overlap most, [n]."""
    taken, hits = np.zeros(len(right), bool), np.zeros(len(boxes), bool)
    if not right.size or not boxes.size:
        return hits
    for i, row in enumerate(overlaps(boxes, right)):
        best = np.where(taken, 0, row).argmax()
        if not taken[best] and row[best] >= level:
            hits[i] = taken[best] = True
    return hits


def _average(right: Array, total: int) -> float:
    """The average precision as COCO computes it, 0 to 1: `right` [boxes] counts the right ones among the first n boxes, `total`
    the objects.
    """
    precisions = right / np.arange(1, len(right) + 1)
    envelope = np.maximum.accumulate(precisions[::-1])[::-1]
    places = np.searchsorted(right / total, np.linspace(0, 1, 101))
    return float(np.append(envelope, 0.0)[places].mean())


def exported(model: Detector, folder: Path) -> Path:
    """The network as an ONNX file, for any number of images."""
    file = folder / "detector.onnx"
    if not file.exists():
        shape = ({0: torch.export.Dim("n", min=1)},)
        program = torch.onnx.export(model, (torch.zeros(2, 3, SIDE, SIDE),), dynamo=True, dynamic_shapes=shape)
        assert program is not None
        program.save(file)
    return file


# files


def ours(model: Path, folder: Path, profile: str, options: Sequence[str]) -> zoo.Variant:
    """What `amct quantize` makes of the model."""
    out = folder / "-".join((profile, *(each.lstrip("-") for each in options)))
    command = [sys.executable, "-m", "amct_opt.tools.amct", "quantize", str(model), f"--profile={profile}", *options]
    try:
        cost = process.run([*command, "--data", str(folder / "calibration.npz"), "-o", str(out)])
    except process.FailedError as e:
        return zoo.Variant(error=zoo.last_line(e))
    return zoo.Variant(out / "detector_qdq.onnx", cpu=cost.cpu)


def theirs(model: Path, folder: Path, peer: str) -> zoo.Variant:
    """What a peer makes of the model."""
    return zoo.by_script(peer, model, folder / "calibration.npz", folder / f"{peer.replace(' ', '-')}.onnx")


def row(
    name: str, made: zoo.Variant, images: Array, shapes: Sequence[Shapes], reference: Array | None
) -> tuple[str, ...]:
    """A file's line, with its outputs for SQNR against the reference."""
    if made.file is None:
        print(f"{name}: {made.error}\n", flush=True)
        return name, *"-" * (len(TABLE.headers) - 1)
    outputs = run(made.file, images)
    found = precision(outputs, shapes)
    noise = "" if reference is None else f"{_sqnr(reference, outputs):.1f}"
    wide = sum(
        node.op_type == "QuantizeLinear" and types.get(node.input[2]) in WIDE
        for graph in [onnx.load(made.file).graph]
        for types in [{each.name: each.data_type for each in graph.initializer}]
        for node in graph.node
    )
    size = f"{made.file.stat().st_size / 1000:.0f}"
    scores = f"{100 * found[0]:.1f}", f"{100 * found.mean():.1f}", noise
    return name, *scores, str(wide), str(integers(made.file)), size, f"{made.cpu:.0f}"


def integers(file: Path) -> int:
    """The convolutions that onnxruntime computes in integers."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.optimized_model_filepath = 3, f"{folder}/optimized.onnx"
        onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        return sum(node.op_type == "QLinearConv" for node in onnx.load(f"{folder}/optimized.onnx").graph.node)


def run(file: Path, images: Array) -> Array:
    """The outputs in onnxruntime, as it is by default."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    parts = (np.asarray(session.run(None, {name: images[i : i + 50]})[0]) for i in range(0, len(images), 50))
    return np.concatenate(list(parts))


def _sqnr(reference: Array, outputs: Array) -> float:
    """The smaller one of boxes and scores, in dB: boxes are in pixels."""
    pairs = ((reference[:, part], outputs[:, part]) for part in (slice(4), slice(4, None)))
    return min(float(10 * np.log10(np.square(a).sum() / np.square(a - b).sum())) for a, b in pairs)


def main(given: str) -> None:
    folder = Path(given)
    folder.mkdir(parents=True, exist_ok=True)
    model = exported(trained(folder), folder)
    np.savez(folder / "calibration.npz", allow_pickle=False, images=drawn(2, CALIBRATION)[0])
    images, shapes = drawn(3, MEASURED)
    reference = run(model, images)
    variants: list[tuple[str, Callable[[], zoo.Variant]]] = [("float", lambda: zoo.Variant(model))]
    for profile, options in product(zoo.PROFILES, OURS):
        name = " ".join((f"ours, {profile}", *(f"`{' '.join(options)}`" for _ in options[:1])))
        variants.append((name, partial(ours, model, folder, profile, options)))
    variants += [(name, partial(theirs, model, folder, peer)) for name, peer in PEERS.items()]
    for name, make in variants:
        line = row(name, make(), images, shapes, None if name == "float" else reference)
        print(" | ".join(line), flush=True)
        update(TABLE, [line], [(each,) for each, _ in variants])


if __name__ == "__main__":
    main(*sys.argv[1:])
