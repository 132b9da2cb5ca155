"""Every layer of torch.nn in its forms, as text: the form is the name of the case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ...frameworks import nn, torch


class Case(NamedTuple):
    """The constructor of a layer, and the names of its arguments among the inputs of its family."""

    text: str
    arguments: Sequence[str]

    @property
    def kind(self) -> str:
        """The name of the class."""
        return self.text.partition("(")[0]

    def layer(self) -> nn.Module:
        """The layer in evaluation mode, with weights and statistics that are not the identity."""
        torch.manual_seed(0)
        module: nn.Module = eval(f"nn.{self.text}", {"nn": nn, "torch": torch}).eval()
        for name, each in chain(module.named_parameters(), module.named_buffers()):
            if name.endswith("running_var"):
                nn.init.uniform_(each, 0.5, 1.5)
            elif each.is_floating_point():
                nn.init.normal_(each, 0, 0.4)
        return module


class Family(NamedTuple):
    """Cases that share their inputs."""

    inputs: Mapping[str, torch.Tensor]
    cases: Sequence[Case]


def together(names: Sequence[str], cases: Sequence[Case]) -> nn.Module:
    """Many layers as one module, whose results are those of all: exporting it takes little longer than exporting one."""

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([case.layer() for case in cases])

        def forward(self, *inputs: torch.Tensor) -> Any:
            given = dict(zip(names, inputs, strict=True))
            pairs = zip(cases, self.layers, strict=True)
            return [layer(*(_own(given[name], case) for name in case.arguments)) for case, layer in pairs]

    return Layers().eval()


def _own(x: torch.Tensor, case: Case) -> torch.Tensor:
    """The input; a copy for a layer that overwrites it."""
    return x.clone() if "inplace" in case.text else x


def _cases(arguments: str, *texts: str) -> list[Case]:
    return [Case(text, arguments.split()) for text in texts]


_SPACE = {1: (2, 4, 11), 2: (2, 4, 9, 8), 3: (2, 4, 6, 5, 7)}
"""Shapes of images of one to three dimensions: two samples, four channels."""


def _image(rank: int) -> torch.Tensor:
    return torch.randn(*_SPACE[rank])


def _convolutions(rank: int) -> Iterator[Case]:
    kernel = str((3, 2, 3)[:rank])
    forms = [
        f"{kernel}",
        "3, bias=False",
        "1, bias=False, stride=2",
        f"{kernel}, stride={(2, 1, 2)[:rank]}, padding={(1, 0, 2)[:rank]}, dilation={(1, 3, 1)[:rank]}",
        f"{kernel}, groups=2",
        "3, groups=4, bias=False, padding=1",
        f"{(2, 3, 2)[:rank]}, padding='same'",
        "3, padding='same', dilation=2, bias=False, groups=2",
        "3, padding='valid'",
    ]
    modes = [f"3, padding=2, padding_mode={mode!r}" for mode in ("reflect", "replicate", "circular")]
    modes += [f"{kernel}, padding='same', bias=False, padding_mode={m!r}" for m in ("reflect", "replicate", "circular")]
    yield from _cases("x", *(f"Conv{rank}d(4, 8, {form})" for form in forms + modes))
    yield from _cases("u", f"Conv{rank}d(4, 8, 3)", f"Conv{rank}d(4, 8, 3, bias=False, padding=1)")
    transposed = [
        f"{kernel}",
        "3, bias=False",
        f"{kernel}, stride={(2, 3, 2)[:rank]}, padding={(1, 1, 0)[:rank]}, output_padding={(1, 2, 0)[:rank]}",
        "3, stride=2, groups=2",
        "2, stride=2, groups=4, bias=False",
        "3, dilation=2, padding=1, bias=False",
        "3, stride=2, dilation=3, output_padding=2, groups=2",
    ]
    yield from _cases("x", *(f"ConvTranspose{rank}d(4, 8, {form})" for form in transposed))
    yield from _cases("u", f"ConvTranspose{rank}d(4, 8, 3, stride=2)")


def _pools(rank: int) -> Iterator[Case]:
    windows = ["2", "3, 2", "3, 2, 1", "3, 2, ceil_mode=True", "3, 2, 1, ceil_mode=True"]
    maxima = ["2, dilation=2", "3, 2, 1, 2, ceil_mode=True", "2, return_indices=True", "3, 2, 1, return_indices=True"]
    means = ["3, 2, 1, count_include_pad=False", "3, 2, 1, ceil_mode=True, count_include_pad=False"]
    if rank > 1:
        means += ["2, divisor_override=3", "3, 2, 1, ceil_mode=True, divisor_override=2"]
    powers = ["2, 2", "1, 3, 2", "4, 2, ceil_mode=True"]
    sizes = ["1", "3", f"{(4, None, 2)[:rank]}"]
    sizes += [] if rank == 1 else ["2"]
    yield from _cases("x", *(f"MaxPool{rank}d({form})" for form in windows + maxima))
    yield from _cases("x", *(f"AvgPool{rank}d({form})" for form in windows + means))
    yield from _cases("x", *(f"LPPool{rank}d({form})" for form in powers))
    yield from _cases("x", *(f"Adaptive{kind}Pool{rank}d({size})" for kind in ("Avg", "Max") for size in sizes))
    yield from _cases("x", f"AdaptiveMaxPool{rank}d(2, return_indices=True)")
    yield from _cases("u", f"MaxPool{rank}d(2)", f"AvgPool{rank}d(2)", f"AdaptiveAvgPool{rank}d(1)")


def _paddings(rank: int) -> Iterator[Case]:
    both = str((1, 2, 0, 1, 2, 1)[: 2 * rank])
    for kind in ("Zero", "Reflection", "Replication", "Circular"):
        yield from _cases("x", f"{kind}Pad{rank}d(1)", f"{kind}Pad{rank}d({both})")
    yield from _cases("x", f"ConstantPad{rank}d({both}, -1.5)", f"ZeroPad{rank}d({(-1, 2, -2, 1, 0, 1)[: 2 * rank]})")


def _norms(rank: int) -> Iterator[Case]:
    forms = [
        "",
        ", affine=False",
        ", eps=0.1, bias=False",
        ", track_running_stats=False",
        ", affine=False, track_running_stats=False",
    ]
    yield from _cases("x", *(f"BatchNorm{rank}d(4{form})" for form in forms))
    forms = [
        "",
        ", affine=True",
        ", eps=0.1, affine=True, bias=False",
        ", track_running_stats=True",
        ", affine=True, track_running_stats=True",
    ]
    yield from _cases("x", *(f"InstanceNorm{rank}d(4{form})" for form in forms))
    yield from _cases("x", "GroupNorm(2, 4)", "GroupNorm(4, 4, affine=False)", "GroupNorm(1, 4, eps=0.1, bias=False)")
    shape = list(_SPACE[rank][-rank:])
    yield from _cases(
        "x",
        f"LayerNorm({shape})",
        f"LayerNorm({shape[-1]}, elementwise_affine=False)",
        f"LayerNorm({shape[-1]}, eps=0.1, bias=False)",
    )
    yield from _cases(
        "x", f"RMSNorm({shape})", f"RMSNorm({shape[-1]}, elementwise_affine=False)", f"RMSNorm({shape[-1]}, eps=0.1)"
    )
    yield from _cases("x", "LocalResponseNorm(3)", "LocalResponseNorm(2, alpha=0.1, beta=0.5, k=2.0)")
    yield from _cases("x", "SyncBatchNorm(4)")
    if rank == 2:
        yield from _cases("x", "CrossMapLRN2d(3)")


def _sampling(rank: int) -> Iterator[Case]:
    linear = ("linear", "bilinear", "trilinear")[rank - 1]
    size = str(tuple(2 * d - 1 for d in _SPACE[rank][2:]))
    factor = str((2.0, 1.5, 0.6)[:rank])
    modes = ["nearest", "nearest-exact", linear, *(["bicubic"] if rank == 2 else [])]
    for mode in modes:
        corners = [""] if mode.startswith("nearest") else ["", ", align_corners=True"]
        for each in corners:
            for by in (
                size,
                "scale_factor=2",
                f"scale_factor={factor}",
                f"scale_factor={factor}, recompute_scale_factor=True",
            ):
                yield from _cases("x", f"Upsample({by}, mode={mode!r}{each})")
    if rank == 2:
        yield from _cases("x", "UpsamplingNearest2d(scale_factor=2)", "UpsamplingBilinear2d((5, 7))")


_ACTIVATIONS = [
    "ReLU()", "ReLU6()", "LeakyReLU()", "LeakyReLU(0.3)", "PReLU()", "PReLU(4)", "RReLU()", "RReLU(0.1,0.5)",
    "ELU()", "ELU(0.5)", "CELU()", "CELU(2.0)", "SELU()", "GELU()", "GELU('tanh')", "SiLU()", "Mish()",
    "Sigmoid()", "LogSigmoid()", "Hardsigmoid()", "Hardswish()", "Hardtanh()", "Hardtanh(-0.5,2.0)",
    "Hardshrink()", "Hardshrink(0.2)", "Softshrink()", "Softshrink(0.1)", "Tanhshrink()", "Threshold(0.1,0.5)",
    "Threshold(-0.3,20.0)", "Softplus()", "Softplus(2.0,1.0)", "Softsign()", "Tanh()", "GLU()", "GLU(1)",
    "Softmax(1)", "Softmax(-1)", "Softmax()", "Softmin(1)", "LogSoftmax(1)", "LogSoftmax(-1)", "Softmax2d()",
    "Identity()", "Dropout()", "Dropout(0.1,inplace=True)", "Dropout2d()", "AlphaDropout()", "Flatten()",
    "Flatten(0)", "Flatten(1,2)", "Unflatten(1,(2,2))", "Unflatten(-1,(2,-1))", "ChannelShuffle(2)",
    "PixelShuffle(2)", "PixelUnshuffle(2)", "ReLU(inplace=True)", "ReLU6(inplace=True)",
    "Hardswish(inplace=True)", "ELU(inplace=True)",
]  # fmt: skip


def _recurrent() -> Iterator[Case]:
    forms = [
        "",
        ", num_layers=2",
        ", bias=False",
        ", bidirectional=True",
        ", num_layers=2, bidirectional=True, bias=False, dropout=0.5",
    ]
    for kind in ("RNN", "LSTM", "GRU"):
        yield from _cases(
            "x", *(f"{kind}(4, 6{form})" for form in forms), f"{kind}(4, 6, batch_first=True, bidirectional=True)"
        )
        yield from _cases("v", f"{kind}(4, 6)")
        yield from _cases("row", f"{kind}Cell(4, 6)", f"{kind}Cell(4, 6, bias=False)")
    yield from _cases(
        "x",
        "RNN(4, 6, nonlinearity='relu')",
        "LSTM(4, 6, proj_size=3)",
        "LSTM(4, 6, 2, proj_size=3, bidirectional=True, bias=False)",
    )
    yield from _cases("row", "RNNCell(4, 6, nonlinearity='relu')")
    yield from _cases("x h", "GRU(4, 6)", "RNN(4, 6)")


def _attention() -> Iterator[Case]:
    forms = [
        "",
        ", bias=False",
        ", batch_first=True",
        ", add_bias_kv=True",
        ", add_zero_attn=True",
        ", dropout=0.5, add_bias_kv=True, bias=False",
    ]
    yield from _cases("x x x", *(f"MultiheadAttention(8, 2{form})" for form in forms))
    yield from _cases(
        "x k w",
        "MultiheadAttention(8, 2, kdim=6, vdim=5)",
        "MultiheadAttention(8, 4, kdim=6, vdim=5, batch_first=True, bias=False)",
    )
    layer = [
        "",
        ", batch_first=True",
        ", norm_first=True",
        ", activation='gelu', bias=False",
        ", norm_first=True, batch_first=True, activation=torch.tanh",
    ]
    yield from _cases("x", *(f"TransformerEncoderLayer(8, 2, 12{form})" for form in layer))
    yield from _cases("x y", *(f"TransformerDecoderLayer(8, 2, 12{form})" for form in layer))
    yield from _cases(
        "x",
        "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12), 2, enable_nested_tensor=False)",
        "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2, nn.LayerNorm(8))",
    )
    yield from _cases(
        "x y",
        "TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12), 2, nn.LayerNorm(8))",
        "Transformer(8, 2, 1, 1, 12)",
        "Transformer(8, 2, 1, 1, 12, batch_first=True, norm_first=True, bias=False)",
    )


def _plain() -> Iterator[Case]:
    yield from _cases("row", "Linear(4, 5)", "Linear(4, 5, bias=False)", "Linear(4, 1)", "Identity(3)")
    yield from _cases("x", "Linear(6, 5)", "Linear(6, 5, bias=False)", "Conv2d(4, 2, 1)")
    yield from _cases("v", "Linear(4, 5)", "Linear(4, 5, bias=False)")
    yield from _cases("row more", "Bilinear(4, 3, 5)", "Bilinear(4, 3, 5, bias=False)")
    yield from _cases("words", "Embedding(10, 4)", "Embedding(10, 4, padding_idx=2)", "Embedding(10, 4, max_norm=0.5)")
    yield from _cases(
        "words",
        *(f"EmbeddingBag(10, 4, mode={mode!r})" for mode in ("sum", "mean", "max")),
        "EmbeddingBag(10, 4, mode='sum', padding_idx=2)",
    )
    yield from _cases("many offsets", *(f"EmbeddingBag(10, 4, mode={mode!r})" for mode in ("sum", "mean", "max")))
    yield from _cases(
        "row other",
        "CosineSimilarity()",
        "CosineSimilarity(0, 0.1)",
        "PairwiseDistance()",
        "PairwiseDistance(1.0)",
        "PairwiseDistance(3.0, keepdim=True)",
    )
    yield from _cases(
        "x", "Unfold(3)", "Unfold((2, 3), dilation=2, padding=1, stride=(1, 2))", "FractionalMaxPool2d(2, 3)"
    )
    yield from _cases("columns", "Fold((5, 6), 2)", "Fold((9, 7), (2, 2), dilation=2, padding=1, stride=(2, 2))")
    yield from _cases("volume", "FractionalMaxPool3d(2, 3)", "Dropout3d()", "FeatureAlphaDropout()")
    yield from _cases("line", "Dropout1d()")
    yield from _cases("pooled1 indices1", "MaxUnpool1d(2)")
    yield from _cases("pooled indices", "MaxUnpool2d(2)", "MaxUnpool2d(2, 3)")
    yield from _cases("pooled3 indices3", "MaxUnpool3d(2)")


def _losses() -> Iterator[Case]:
    by_inputs = {
        "a b": "MSELoss L1Loss SmoothL1Loss HuberLoss PoissonNLLLoss",
        "a chances": "BCEWithLogitsLoss KLDivLoss",
        "chances chances": "BCELoss",
        "a signs": "SoftMarginLoss HingeEmbeddingLoss MultiLabelSoftMarginLoss",
        "a labels": "CrossEntropyLoss NLLLoss MultiMarginLoss",
        "image map": "NLLLoss2d",
        "a places": "MultiLabelMarginLoss",
        "a b chances": "GaussianNLLLoss TripletMarginLoss TripletMarginWithDistanceLoss",
        "a b sign": "CosineEmbeddingLoss",
        "row row sign": "MarginRankingLoss",
    }
    for reduction in ("mean", "sum", "none"):
        for names, kinds in by_inputs.items():
            yield from _cases(names, *(f"{kind}(reduction={reduction!r})" for kind in kinds.split()))
    yield from _cases("a labels", "AdaptiveLogSoftmaxWithLoss(4, 5, [2, 3])", "LinearCrossEntropyLoss(4, 5)")
    yield from _cases("a labels", "CrossEntropyLoss(label_smoothing=0.1, ignore_index=3)")
    yield from _cases("steps words lengths counts", "CTCLoss()")


_NO_FUNCTION = "torch cannot export it to ONNX: No ONNX function found"
_BRANCHES = "torch cannot export it: Could not guard on data-dependent expression"
REFUSED: Mapping[str, str] = {
    "AdaptiveMaxPool1d(2, return_indices=True)": _NO_FUNCTION,
    "AdaptiveMaxPool2d(2, return_indices=True)": _NO_FUNCTION,
    "AdaptiveMaxPool3d(2, return_indices=True)": _NO_FUNCTION,
    "FractionalMaxPool2d(2, 3)": _NO_FUNCTION,
    "FractionalMaxPool3d(2, 3)": _NO_FUNCTION,
    "CrossMapLRN2d(3)": "torch cannot export it to ONNX",
    "AdaptiveLogSoftmaxWithLoss(4, 5, [2, 3])": _BRANCHES,
    **{f"GaussianNLLLoss(reduction={reduction!r})": _BRANCHES for reduction in ("mean", "sum", "none")},
    "CTCLoss()": "torch cannot export it: aten._ctc_loss.Tensor",
}
"""What torch's exporter refuses: indices of windows of several sizes, random windows, branches on data, an old function."""
_BASES = "Container", "Module", "RNNBase", "RNNCellBase", "DataParallel"
_CONTAINERS = "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"
_LAZY = "BatchNorm", "Conv", "ConvTranspose", "InstanceNorm"
LEFT_OUT = {*_BASES, *_CONTAINERS, "LazyLinear", *(f"Lazy{kind}{rank}d" for kind in _LAZY for rank in (1, 2, 3))}
"""Containers and bases. Lazy layers become others at their first call."""


def first_of_each() -> Family:
    """The first form of each class, in one family."""
    inputs: dict[str, torch.Tensor] = {}
    cases: dict[str, Case] = {}
    for name, family in families().items():
        inputs.update({f"{name}_{key}": value for key, value in family.inputs.items()})
        for case in family.cases:
            cases.setdefault(case.kind, Case(case.text, [f"{name}_{key}" for key in case.arguments]))
    used = {key for case in cases.values() for key in case.arguments}
    return Family({key: value for key, value in inputs.items() if key in used}, [*cases.values()])


_SPATIAL = {"conv": _convolutions, "pool": _pools, "pad": _paddings, "norm": _norms, "sample": _sampling}
FAMILIES = [*(f"{name}{rank}d" for rank in _SPACE for name in _SPATIAL)]
FAMILIES += ["activation", "recurrent", "attention", "plain", "loss"]


def families() -> dict[str, Family]:
    """The cases by family, with inputs that are the same each time."""
    torch.manual_seed(1)
    found: dict[str, Family] = {}
    for rank in _SPACE:
        x = _image(rank)
        for name, make in _SPATIAL.items():
            found[f"{name}{rank}d"] = Family({"x": x, "u": x[0]}, [*make(rank)])
    found["activation"] = Family({"x": torch.randn(2, 4, 6, 8)}, _cases("x", *_ACTIVATIONS))
    found["recurrent"] = Family(
        {"x": torch.randn(5, 3, 4), "h": torch.randn(1, 3, 6), "v": torch.randn(5, 4), "row": torch.randn(3, 4)},
        [*_recurrent()],
    )
    found["attention"] = Family(
        {"x": torch.randn(4, 4, 8), "y": torch.randn(4, 4, 8), "k": torch.randn(4, 4, 6), "w": torch.randn(4, 4, 5)},
        [*_attention()],
    )
    unpooled = {
        name: each
        for rank, suffix in ((1, "1"), (2, ""), (3, "3"))
        for name, each in zip(
            (f"pooled{suffix}", f"indices{suffix}"),
            getattr(nn.functional, f"max_pool{rank}d")(torch.randn(2, 3, *[6] * rank), 2, return_indices=True),
            strict=True,
        )
    }
    found["plain"] = Family(
        {
            "x": torch.randn(2, 4, 5, 6),
            "v": torch.randn(4),
            "row": torch.randn(3, 4),
            "other": torch.randn(3, 4),
            "more": torch.randn(3, 3),
            "words": torch.randint(0, 10, (2, 5)),
            "many": torch.randint(0, 10, (7,)),
            "offsets": torch.tensor([0, 3, 5]),
            "columns": torch.randn(2, 12, 20),
            "volume": torch.randn(2, 4, 5, 6, 5),
            "line": torch.randn(2, 4, 5),
            **unpooled,
        },
        [*_plain()],
    )
    found["loss"] = Family(
        {
            "a": torch.randn(3, 4),
            "b": torch.randn(3, 4),
            "chances": torch.rand(3, 4),
            "signs": torch.sign(torch.randn(3, 4)),
            "labels": torch.tensor([0, 3, 1]),
            "image": torch.randn(2, 4, 3, 5),
            "map": torch.randint(0, 4, (2, 3, 5)),
            "places": torch.tensor([[1, 0, -1, 2], [3, -1, 0, 0], [0, 1, 2, 3]]),
            "row": torch.randn(3),
            "sign": torch.tensor([1.0, -1.0, 1.0]),
            "steps": torch.randn(6, 2, 4).log_softmax(-1),
            "words": torch.tensor([[1, 2], [3, 1]]),
            "lengths": torch.tensor([6, 5]),
            "counts": torch.tensor([2, 1]),
        },
        [*_losses()],
    )
    return found
