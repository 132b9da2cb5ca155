"""What is wrong in a prototxt is told with its place."""

from __future__ import annotations

from typing import Any

import pytest

from amct_opt.frontends.caffe import read
from amct_opt.ir.text import module_text, parse_module
from amct_opt.support.diagnostics import CompileError

DATA = 'input: "data" input_shape { dim: [1, 4, 6, 6] }\n'


def layer(kind: str, rest: str = "", bottom: str = "data", top: str = "y", name: str = "y") -> str:
    return f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{top}" {rest} }}\n'


def pool(text: str) -> str:
    return layer("Pooling", f"pooling_param {{ {text} }}")


def conv(text: str) -> str:
    return layer("Convolution", f"convolution_param {{ {text} }}")


TWICE = layer("ReLU") + layer("TanH", name="z")
NET = "net.prototxt"
HERE = "net.prototxt:2:1: node 'y'"

CASES: dict[str, tuple[str, str, str]] = {
    "empty": ("", NET, "holds no layers"),
    "no-text": ("\x00\x01", f"{NET}:1:1", "is not a Caffe prototxt: Expected identifier or number, got \x00"),
    "brace": (DATA + "layer {", f"{NET}:2:7", 'is not a Caffe prototxt: Expected "}"'),
    "number": (DATA + conv("num_output: many"), f"{NET}:2:95", "is not a Caffe prototxt: Couldn't parse integer: many"),
    "enum": (
        DATA + pool("pool: SUM"),
        f"{NET}:2:81",
        'is not a Caffe prototxt: Enum type "caffe.PoolingParameter.PoolMethod" has no value named SUM',
    ),
    "both-formats": (
        DATA + layer("ReLU") + "layers { type: TANH }",
        NET,
        "has both `layer` and `layers`, which are of different formats",
    ),
    "oldest-format": (
        DATA + 'layers { layer { name: "c" } bottom: "data" }',
        f"{NET}:2:1",
        "is in Caffe's oldest format",
    ),
    "no-type": (DATA + 'layer { name: "x" bottom: "data" }', f"{NET}:2", "layer 'x' has no type"),
    "rules": (
        DATA + layer("ReLU", "include { phase: TEST } exclude { phase: TRAIN }"),
        HERE,
        "has `include` and `exclude` rules, only one kind is allowed",
    ),
    "input-dim": ('input: "data" input_dim: 3\n' + layer("ReLU"), NET, "has 1 numbers in input_dim, an input takes 4"),
    "input-shapes": (
        'input: "data" input: "b" input_shape { dim: 1 }' + layer("ReLU"),
        NET,
        "has 2 inputs and 1 shapes for them",
    ),
    "input-size": (
        'input: "data" input_shape { dim: [0, 3] }\n' + layer("ReLU"),
        f"{NET}:1:1: node 'data'",
        "input 'data' is of shape [0, 3]",
    ),
    "input-without-shape": (
        'input: "data"\n' + layer("ReLU"),
        f"{NET}:1:1: node 'data'",
        "the shape of input 'data' is not known",
    ),
    "undefined": (DATA + layer("ReLU", bottom="no"), HERE, "reads blob 'no', which no layer makes"),
    "excluded": (
        DATA + layer("TanH", "include { phase: TRAIN }", top="a", name="a") + layer("ReLU", bottom="a"),
        "net.prototxt:3:1: node 'y'",
        "reads blob 'a', which no layer makes",
    ),
    "of-a-loss": (
        DATA + layer("EuclideanLoss", top="a", name="a") + layer("ReLU", bottom="a"),
        "net.prototxt:3:1: node 'y'",
        "reads blob 'a' of layer 'a', which is of training only",
    ),
    "order": (
        DATA + layer("ReLU", bottom="a") + layer("TanH", top="a", name="a"),
        HERE,
        "reads blob 'a' before layer 'a' makes it",
    ),
    "cycle": (
        DATA
        + layer("Eltwise", 'bottom: "c"', top="a", name="a")
        + layer("TanH", bottom="a", top="b", name="b")
        + layer("TanH", bottom="b", top="c", name="c"),
        "net.prototxt:2:1: node 'a'",
        "is part of a cycle: b -> c -> a -> b",
    ),
    "itself": (DATA + layer("ReLU", bottom="y"), HERE, "is part of a cycle: y -> y"),
    "twice": (
        TWICE.join((DATA, "")),
        "net.prototxt:3:1: node 'z'",
        "writes blob 'y', which layer 'y' makes and this one does not read",
    ),
    "no-outputs": (
        DATA + layer("ReLU") + 'layer { name: "s" type: "Silence" bottom: "y" }',
        NET,
        "has no outputs: every blob is read by some layer",
    ),
    "bottoms": (DATA + layer("ReLU", 'bottom: "data"'), HERE, "ReLU has 2 bottoms, but it takes 1"),
    "tops": (DATA + layer("TanH", 'top: "z"'), HERE, "TanH has 2 tops, but it takes 1"),
    "no-bottoms": (
        DATA + 'layer { name: "y" type: "Concat" top: "y" }',
        HERE,
        "Concat has 0 bottoms, but it takes 1 or more",
    ),
    "no-kernel": (DATA + conv("num_output: 2"), HERE, "Convolution has no kernel_size"),
    "kernels": (
        DATA + conv("num_output: 2 kernel_size: [1, 2, 3]"),
        HERE,
        "Convolution has 3 numbers in kernel_size, but it has 2 spatial axes",
    ),
    "kernel-hw": (
        DATA + conv("num_output: 2 kernel_size: 3 kernel_h: 3"),
        HERE,
        "Convolution has kernel_h and kernel_w, which stand for kernel_size on two spatial axes",
    ),
    "no-num-output": (DATA + conv("kernel_size: 3"), HERE, "Convolution has no num_output"),
    "group": (
        DATA + conv("num_output: 3 kernel_size: 3 group: 3"),
        HERE,
        "Convolution has group 3, which does not divide 4 channels and 3 outputs",
    ),
    "pooling-pad": (
        DATA + pool("kernel_size: 2 pad: 2"),
        HERE,
        "Pooling pads by [2, 2], which is not less than its kernel [2, 2]",
    ),
    "pooling-outside": (
        DATA + pool("kernel_size: 1 stride: 2"),
        HERE,
        "Pooling has a last window outside of its input of size 6: kernel 1, stride 2",
    ),
    "pooling-modes": (
        DATA + pool("kernel_size: 2 round_mode: FLOOR ceil_mode: true"),
        HERE,
        "Pooling has round_mode FLOOR and ceil_mode true",
    ),
    "pooling-global": (
        DATA + pool("kernel_size: 2 global_pooling: true"),
        HERE,
        "Pooling pools globally, and has a kernel",
    ),
    "pooling-large": (
        DATA + pool("kernel_size: 9"),
        HERE,
        "Pooling does not fit together: window of 9 exceeds the padded size 6",
    ),
    "stride-0": (
        DATA + pool("kernel_size: 2 stride: 0"),
        HERE,
        "Pooling does not fit together: strides [0, 0] must be at least 1",
    ),
    "axis": (
        DATA + layer("Softmax", "softmax_param { axis: 4 }"),
        HERE,
        "Softmax does not fit together: axis 4 is out of range for rank 4",
    ),
    "permute": (
        DATA + layer("Permute", "permute_param { order: [0, 0, 1, 2] }"),
        HERE,
        "Permute does not fit together: perm [0, 0, 1, 2, 3] is not a permutation of 4 axes",
    ),
    "reshape": (
        DATA + layer("Reshape", "reshape_param { shape { dim: [5, -1] } }"),
        HERE,
        "Reshape does not fit together: [1, 4, 6, 6] cannot be reshaped to [5, -1]",
    ),
    "slice-points": (
        DATA + layer("Slice", 'top: "z" slice_param { slice_point: [1, 2] }'),
        HERE,
        "Slice has 2 slice points for 2 tops",
    ),
    "slice-order": (
        DATA + layer("Slice", 'top: "z" slice_param { slice_point: 4 }'),
        HERE,
        "Slice has slice points [4], which do not cut size 4 into parts",
    ),
    "slice-equal": (DATA + layer("Slice", 'top: "z" top: "w"'), HERE, "Slice cannot cut size 4 into 3 equal parts"),
    "concat": (
        DATA + pool("kernel_size: 2") + layer("Concat", 'bottom: "y"', top="z", name="z"),
        "net.prototxt:3:1: node 'z'",
        "Concat does not fit together: sizes of axis 2 differ: 6 and 5",
    ),
    "eltwise": (
        DATA + pool("kernel_size: 2") + layer("Eltwise", 'bottom: "y"', top="z", name="z"),
        "net.prototxt:3:1: node 'z'",
        "Eltwise does not fit together: sizes of bottom 0 and 1 differ: 6 and 5",
    ),
    "coefficients": (
        DATA + layer("Eltwise", 'bottom: "data" eltwise_param { coeff: 1 }'),
        HERE,
        "Eltwise has 1 coefficients for a SUM of 2 bottoms",
    ),
    "lrn": (DATA + layer("LRN", "lrn_param { local_size: 4 }"), HERE, "LRN has local_size 4, but it needs an odd one"),
    "crop": (
        DATA + layer("Crop", 'bottom: "data" crop_param { offset: 1 }'),
        HERE,
        "Crop cuts axis 2 up to 7, its size is 6",
    ),
    "argmax": (
        DATA + layer("ArgMax", "argmax_param { axis: 1 top_k: 5 }"),
        HERE,
        "ArgMax has top_k 5, but there are 4 elements",
    ),
    "clip": (DATA + layer("Clip"), HERE, "Clip needs min and max"),
    "log-base": (DATA + layer("Log", "log_param { base: 1 }"), HERE, "Log has base 1, to which there is no logarithm"),
    "large-input": (
        'input: "data" input_shape { dim: [65536, 32768] }\n' + layer("ReLU"),
        f"{NET}:1:1: node 'data'",
        "input 'data' is of shape [65536, 32768]",
    ),
    "large-result": (
        DATA + layer("Interp", "interp_param { zoom_factor: 8192 }"),
        HERE,
        "Interp makes a blob of shape [1, 4, 40961, 40961], which is larger than Caffe's can be",
    ),
    "interp": (DATA + layer("Interp"), HERE, "Interp has neither height and width nor a factor"),
}


@pytest.mark.parametrize("name", CASES)
def test_located(caffe: Any, name: str) -> None:
    text, where, message = CASES[name]
    with pytest.raises(CompileError) as e:
        caffe.load_text(text)
    assert (e.value.message, e.value.where) == (message, f"{caffe.folder}/{where}")


HOSTILE: dict[str, tuple[str, str]] = {
    "window": ("Pooling", "pooling_param {{ pool: MAX kernel_size: {} }}"),
    "stride": ("Pooling", "pooling_param {{ pool: AVE kernel_size: 2 stride: {} }}"),
    "pad": ("Pooling", "pooling_param {{ pool: AVE kernel_size: 2 pad: {} }}"),
    "shape": ("Reshape", "reshape_param {{ shape {{ dim: [1, {}, 36] }} }}"),
    "slice": ("Slice", "slice_param {{ axis: 1 slice_point: {} }}"),
    "crop": ("Crop", "crop_param {{ axis: 2 offset: {} }}"),
    "tiles": ("Tile", "tile_param {{ axis: 1 tiles: {} }}"),
    "height": ("Interp", "interp_param {{ height: {} width: 4 }}"),
    "zoom": ("Interp", "interp_param {{ zoom_factor: {} }}"),
    "shrink": ("Interp", "interp_param {{ shrink_factor: {} }}"),
    "scale": ("Upsample", "upsample_param {{ scale: {} }}"),
    "blocks": ("Reorg", "reorg_param {{ stride: {} }}"),
    "outputs": ("InnerProduct", "inner_product_param {{ num_output: {} }}"),
    "filters": ("Convolution", "convolution_param {{ num_output: {} kernel_size: 3 }}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_numbers_that_no_shape_can_have(caffe: Any, name: str) -> None:
    """Each is one located error, or a module whose text reads back; a negative number is an error, -1 of what is left aside."""
    kind, text = HOSTILE[name]
    for number in (-(1 << 62), -(1 << 31), -7, -1, 0, (1 << 31) - 1, (1 << 32) - 1, 1 << 62):
        try:
            module = caffe.load_text(DATA + layer(kind, text.format(number)))
        except CompileError as e:
            located = e
        else:
            assert number >= 0 or (name, number) == ("shape", -1)
            assert module_text(parse_module(caffe.session, module_text(module))) == module_text(module)
            continue
        assert located.where.startswith(str(caffe.folder))
        assert "\n" not in located.message


def test_deep_nesting(caffe: Any) -> None:
    with pytest.raises(CompileError):
        caffe.load_text("layer { a { " * 100_000)


def test_not_utf8(caffe: Any) -> None:
    path = caffe.folder / "net.prototxt"
    path.write_bytes(b'name: "\xff"')
    with pytest.raises(CompileError, match="is not UTF-8 text"):
        read(path, caffe.session)


def test_caffemodel_alone(caffe: Any) -> None:
    path = caffe.save("", b"\x0a\x01n")[1]
    with pytest.raises(CompileError) as e:
        read(path, caffe.session)
    assert e.value.message == "holds weights; the net that it holds is that of training"
    assert e.value.hint == "name the prototxt, and this file as --weights net.caffemodel"
