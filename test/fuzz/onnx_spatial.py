"""Steps on feature maps: convolutions, norms, pools, and the blocks that vision models are made of."""

from __future__ import annotations

import numpy as np

from .graph import File, Refused


def _auto_pad(f: File) -> str:
    return f.pick("SAME_UPPER", "SAME_LOWER", "VALID")


def _window(f: File, space: tuple[int, ...]) -> dict[str, object]:
    """Attributes of a window: kernel, strides, dilations and padding."""
    rank = len(space)
    kernel = [min(f.pick(1, 2, 3, 3, 5), s) for s in space] if f.chance(0.3) else [f.pick(1, 2, 3, 3)] * rank
    attributes: dict[str, object] = {"kernel_shape": kernel}
    if f.chance(0.6):
        attributes["strides"] = [f.pick(1, 2) for _ in space] if f.chance(0.3) else [f.pick(1, 2, 2, 3)] * rank
    if f.chance(0.3):
        attributes["auto_pad"] = _auto_pad(f)
    elif f.chance(0.6):
        pads = [f.int(0, k - 1) for k in kernel]
        attributes["pads"] = pads * 2 if f.chance(0.7) else [*pads, *(f.int(0, k - 1) for k in kernel)]
    if f.chance(0.2):
        attributes["dilations"] = [f.pick(1, 2)] * rank
    return attributes


def convolution(f: File, x: str) -> str:
    _, c, *space = f.shape(x)
    groups = f.pick(1, 1, 1, 2 if c % 2 == 0 else 1, c)
    out = groups * f.pick(1, 2, max(1, 4 // groups))
    attributes = _window(f, tuple(space))
    kernel = attributes["kernel_shape"]
    assert isinstance(kernel, list)
    weight = f.normal(out, c // groups, *kernel, scale=(np.prod(kernel) * c / groups) ** -0.5)
    if f.chance(0.3):
        del attributes["kernel_shape"]
    inputs = [x, weight, *([f.normal(out, scale=0.1)] if f.chance(0.6) else [])]
    return f.one("Conv", inputs, **attributes, **({"group": groups} if groups > 1 or f.chance(0.5) else {}))


def transposed_convolution(f: File, x: str) -> str:
    _, c, *space = f.shape(x)
    groups = f.pick(1, 1, 2 if c % 2 == 0 else 1, c)
    kernel, strides = [f.pick(1, 2, 3, 4)] * len(space), [f.pick(1, 2)] * len(space)
    attributes: dict[str, object] = {"strides": strides, "group": groups, "kernel_shape": kernel}
    if f.chance(0.3):
        attributes["output_padding"] = [f.int(0, s - 1) for s in strides]
    if f.chance(0.2):
        attributes["auto_pad"] = _auto_pad(f)
    elif f.chance(0.5):
        attributes["pads"] = [f.int(0, k - 1) for k in (*kernel, *kernel)]
    if f.chance(0.15):
        attributes["dilations"] = [2] * len(space)
    if f.chance(0.15):
        attributes["output_shape"] = [s * t + f.int(0, 1) for s, t in zip(space, strides, strict=True)]
    inputs = [x, f.normal(c, f.pick(1, 2, 4), *kernel, scale=c**-0.5)]
    if f.chance(0.5):
        inputs.append(f.normal(f.shape(inputs[1])[1] * groups, scale=0.1))
    return f.one("ConvTranspose", inputs, **attributes)


def shared(f: File, x: str) -> str:
    """Two convolutions or products with one weight, added."""
    c = f.shape(x)[1]
    y = f.like(x)
    if len(f.shape(x)) == 2:
        weight = f.normal(c, c, scale=c**-0.5)
        return f.one("Add", [f.one("MatMul", [x, weight]), f.one("MatMul", [y, weight])])
    weight = f.normal(c, c, *[1] * (len(f.shape(x)) - 2), scale=c**-0.5)
    bias = f.normal(c)
    first = f.one("Conv", [x, weight, bias])
    return f.one("Add", [first, f.one("Conv", [y, weight, *([bias] if f.chance(0.5) else [])])])


def grouped_by_hand(f: File, x: str) -> str:
    """Split, a convolution of each part, Concat."""
    _, c, *space = f.shape(x)
    if c % 2 or not space:
        raise Refused("odd")
    sizes = {} if f.opset >= 13 else {"split": [c // 2] * 2}
    parts = f.op("Split", [x, f.integers(c // 2, c // 2)] if f.opset >= 13 else [x], 2, axis=1, **sizes)
    kernel = f.pick(1, 3)
    made: list[str] = []
    for part in parts:
        weight = f.normal(2, c // 2, *[kernel] * len(space), scale=c**-0.5)
        made.append(f.one("Conv", [part, weight, f.normal(2)], pads=[kernel // 2] * (2 * len(space))))
    return f.one("Concat", made, axis=1)


def batch_norm(f: File, x: str) -> str:
    c = f.shape(x)[1]
    return f.one(
        "BatchNormalization", [x, f.spread(c), f.normal(c), f.normal(c), f.spread(c)], epsilon=f.pick(1e-5, 1e-3)
    )


def small_batch_norm(f: File, x: str) -> str:
    c, rank = f.shape(x)[1], len(f.shape(x))
    shape = (c, *[1] * (rank - 2))
    y = f.one("Sub", [x, f.normal(*shape)])
    y = f.one(f.pick("Mul", "Div"), [y, f.spread(*shape)])
    return f.one("Add", [f.one("Mul", [y, f.normal(*shape)]), f.normal(*shape)])


def residual(f: File, x: str) -> str:
    """Convolution, norm, activation, and x added."""
    _, c, *space = f.shape(x)
    y = f.one("Conv", [x, f.normal(c, c, *[3] * len(space), scale=(9 * c) ** -0.5)], pads=[1] * (2 * len(space)))
    if f.chance(0.6):
        y = batch_norm(f, y)
    if f.chance(0.3):
        y = f.one("Relu", [y])
    y = f.one("Add", [y, x] if f.chance(0.7) else [x, y])
    return f.one("Relu", [y]) if f.chance(0.7) else y


def squeeze_and_excite(f: File, x: str) -> str:
    _, c, *space = f.shape(x)
    ones = [1] * len(space)
    y = f.one("GlobalAveragePool", [x])
    y = f.one("Relu", [f.one("Conv", [y, f.normal(2, c, *ones), f.normal(2)])])
    y = f.one(f.pick("Sigmoid", "HardSigmoid"), [f.one("Conv", [y, f.normal(c, 2, *ones), f.normal(c)])])
    return f.one("Mul", [x, y] if f.chance(0.7) else [y, x])


def pool(f: File, x: str) -> str:
    _, _, *space = f.shape(x)
    kind = f.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
    attributes = _window(f, tuple(space))
    if "auto_pad" in attributes:  # onnxruntime forgets the dilations
        attributes.pop("dilations", None)
        kernel, strides = attributes["kernel_shape"], attributes.get("strides", [1])
        assert isinstance(kernel, list)
        assert isinstance(strides, list)
        if max(strides) > min(kernel):  # onnxruntime cuts off what no window reads, or fails
            del attributes["auto_pad"]
    if f.chance(0.3) and not (
        kind == "LpPool" and "auto_pad" in attributes
    ):  # its kernel and its inferred shape disagree
        attributes["ceil_mode"] = 1
    if kind == "AveragePool" and f.chance(0.5):
        attributes["count_include_pad"] = f.pick(0, 1)
    if kind == "MaxPool" and f.chance(0.05):
        return f.op(kind, [x], 2, **attributes)[0]
    return f.one(kind, [x], **attributes)


def global_pool(f: File, x: str) -> str:
    return f.one(f.pick("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), [x])


def resize(f: File, x: str) -> str:
    n, c, *space = f.shape(x)
    if f.opset < 10:
        return f.one(
            "Upsample", [x, f.constant([1, 1, *[2] * len(space)], np.float32)], mode=f.pick("nearest", "linear")
        )
    if f.opset == 10:
        return f.one("Resize", [x, f.constant([1, 1, *[2] * len(space)], np.float32)], mode=f.pick("nearest", "linear"))
    mode = f.pick("nearest", "nearest", "linear", "linear", "cubic")
    attributes: dict[str, object] = {"mode": mode}
    if f.chance(0.8):
        attributes["coordinate_transformation_mode"] = f.pick(
            "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
        )
    if mode == "nearest" and f.chance(0.7):
        attributes["nearest_mode"] = f.pick("floor", "round_prefer_floor", "ceil", "round_prefer_ceil")
    if mode == "cubic" and f.chance(0.5):
        attributes["cubic_coeff_a"] = -0.5
    if mode != "nearest" and f.opset >= 18 and f.chance(0.3):
        attributes["antialias"] = 1
    roi = "" if f.opset >= 13 else f.constant([], np.float32)
    factor = f.pick(2.0, 2.0, 0.5, 1.5, 3.0)
    if f.chance(0.5):
        is_whole = all((s * factor).is_integer() for s in space)
        if attributes.get("coordinate_transformation_mode") == "align_corners" and not is_whole:
            raise Refused("onnxruntime takes the size after rounding, ONNX before it")
        return f.one("Resize", [x, roi, f.constant([1, 1, *[factor] * len(space)], np.float32)], **attributes)
    sizes = [max(1, int(s * factor)) for s in space]
    scales = "" if f.opset >= 13 else f.constant([], np.float32)
    return f.one("Resize", [x, roi, scales, f.integers(n, c, *sizes)], **attributes)


def pad(f: File, x: str) -> str:
    shape = f.shape(x)
    mode = f.pick("constant", "constant", "reflect", "edge", "wrap" if f.opset >= 19 else "edge")
    low = -1 if mode == "constant" and f.chance(0.2) else 0
    behind = 2 if len(shape) > 2 else len(shape) - 1
    pads = [*[0] * behind, *(f.int(low, 2) for _ in shape[behind:])]
    pads += [*[0] * behind, *(f.int(low, 1) for _ in shape[behind:])]
    value = f.pick(0.0, 0.0, 1.5, -np.inf if f.wild else -1.0)
    if f.opset < 11:
        return f.one("Pad", [x], pads=pads, mode=mode, value=value)
    if f.opset >= 18 and f.chance(0.3):
        both = [f.int(0, 1), f.int(0, 1)]
        return f.one("Pad", [x, f.integers(*both), "", f.integers(-1)], mode=mode)
    inputs = [
        x,
        f.integers(*pads),
        *([f.constant(value, f.values[x].dtype)] if f.chance(0.5) and mode == "constant" else []),
    ]
    return f.one("Pad", inputs, mode=mode)


def blocks(f: File, x: str) -> str:
    if f.chance(0.5) or f.opset < 11:
        return f.one("SpaceToDepth", [x], blocksize=2)
    return f.one("DepthToSpace", [x], blocksize=2, mode=f.pick("DCR", "CRD"))


def shuffle(f: File, x: str) -> str:
    """Channels shuffled between two groups."""
    _, c, h, w = f.shape(x)
    y = f.one("Transpose", [f.one("Reshape", [x, f.integers(-1, 2, c // 2, h, w)])], perm=[0, 2, 1, 3, 4])
    return f.one("Reshape", [y, f.integers(-1, c, h, w)])
