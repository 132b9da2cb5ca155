"""How weights come out of a caffemodel: from the mapped file where they can, exactly in any case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import nn
from amct_opt.formats.caffe.file import read_weights
from amct_opt.formats.caffe.schema import BlobProto, NetParameter
from amct_opt.ir.functions import main_function
from amct_opt.support.diagnostics import CompileError

Array = np.ndarray[Any, np.dtype[Any]]

NUMBERS = np.random.default_rng(0).normal(size=(40, 60)).astype(np.float32)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def delimited(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def shape(*dims: int) -> bytes:
    return delimited(7, delimited(1, b"".join(map(varint, dims))))


RAW = NUMBERS.tobytes()
DOUBLES = NUMBERS.astype(np.float64).tobytes()

ENCODINGS: dict[str, bytes] = {
    "packed": shape(40, 60) + delimited(5, RAW),
    "packed-first": delimited(5, RAW) + shape(40, 60),
    "unpacked": shape(40, 60) + b"".join(b"\x2d" + v.tobytes() for v in NUMBERS.ravel()),
    "two-runs": delimited(5, RAW[:4000]) + shape(40, 60) + delimited(5, RAW[4000:]),
    "mixed": shape(40, 60) + delimited(5, RAW[:-4]) + b"\x2d" + RAW[-4:],
    "double": shape(40, 60) + delimited(8, DOUBLES),
    "double-unpacked": shape(40, 60) + b"".join(b"\x41" + v.tobytes() for v in NUMBERS.astype(float).ravel()),
    "gradients": delimited(6, RAW) + shape(40, 60) + delimited(5, RAW) + delimited(9, DOUBLES),
    "four-numbers": bytes([0x08, 1, 0x10, 1, 0x18, 40, 0x20, 60]) + delimited(5, RAW),
    "odd-offset": delimited(99, b"x") + shape(40, 60) + delimited(5, RAW),
}


@pytest.mark.parametrize("old", [False, True], ids=["layer", "layers"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings(caffe: Any, name: str, old: bool) -> None:
    """protobuf reads the same from all of them, and so do we."""
    data = ENCODINGS[name]
    theirs = BlobProto.FromString(data)
    np.testing.assert_array_equal(np.array(theirs.double_data or theirs.data, np.float32), NUMBERS.ravel())
    layer = delimited(4, b"fc") + delimited(6, data) if old else delimited(1, b"fc") + delimited(7, data)
    path = caffe.save("", delimited(1, b"net") + delimited(2 if old else 100, layer))[1]
    ((key, (blob,)),) = read_weights(path).items()
    assert key == "fc"
    assert blob.fits((40, 60))
    assert not blob.fits((60, 40))
    assert blob.shaped((40, 60)).dtype == np.float32
    np.testing.assert_array_equal(blob.shaped((40, 60)), NUMBERS)
    assert (mapped_by(blob.numbers) is not None) == (name not in ("unpacked", "double-unpacked", "two-runs", "mixed"))


def mapped_by(array: Array) -> Any:
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None) if isinstance(base, np.ndarray) else getattr(base, "obj", None)
    return base


def test_weights_stay_in_the_file(caffe: Any, new_net: Any) -> None:
    net = new_net((1, 60))
    net.add("fc", "InnerProduct", blobs=[NUMBERS], inner_product_param={"num_output": 40, "bias_term": False})
    block = main_function(caffe.load(net)).body.block
    (constant,) = [op for op in block.ops if isinstance(op, nn.ConstantOp)]
    assert mapped_by(constant.array) is not None
    assert not constant.array.flags.writeable
    np.testing.assert_array_equal(constant.array, NUMBERS)


def test_scalar_and_four_numbers(caffe: Any) -> None:
    """One number fits a parameter of one number; ones may stand in front of four numbers, not of a shape."""
    from amct_opt.formats.caffe.file import Blob

    one = np.ones(1, np.float32)
    assert all(Blob(dims, one).fits(()) and Blob(dims, one).fits((1,)) for dims in ((), (1,), (1, 1, 1, 1)))
    six = np.ones(6, np.float32)
    assert Blob((1, 1, 2, 3), six, legacy=True).fits((2, 3))
    assert not Blob((1, 1, 2, 3), six).fits((2, 3))
    assert not Blob((1, 2, 1, 3), six, legacy=True).fits((2, 3))


FC = 'input: "data" input_shape { dim: [1, 60] }\nlayer { name: "fc" type: "InnerProduct" bottom: "data" top: "y" %s }'
PARAM = "inner_product_param { num_output: 40 bias_term: false }"


def model(*layers: tuple[str, bytes]) -> bytes:
    rows = (delimited(100, delimited(1, name.encode()) + delimited(7, blob)) for name, blob in layers)
    return b"".join(rows)


PACKED = ENCODINGS["packed"]
BLOB, NODE = "net.caffemodel: blob 0 of 'fc'", "net.prototxt:2:1: node 'fc'"


@pytest.mark.parametrize(
    ("data", "where", "message"),
    [
        (b"", "net.caffemodel", "is empty"),
        (b"\x0a\x03net", "net.caffemodel", "is not a caffemodel"),
        (b'name: "net"', "net.caffemodel", "is not a caffemodel"),
        (b"\x89HDF\r\n\x1a\n rest", "net.caffemodel", "is not a caffemodel"),
        (model(("fc", PACKED))[:-7], "net.caffemodel", "is not a caffemodel"),
        (model(("fc", PACKED), ("fc", PACKED)), "net.caffemodel", "holds the weights of layer 'fc' twice"),
        (model(("fc", shape(40, 60) + delimited(5, RAW[:-2]))), BLOB, "holds a number of less than 4 bytes"),
        (model(("fc", shape(40, 61) + delimited(5, RAW))), BLOB, "is of shape [40, 61] and holds 2400 numbers"),
        (model(("fc", delimited(5, RAW))), BLOB, "is of shape [] and holds 2400 numbers"),
        (
            model(("fc", shape(1 << 62, 1 << 62) + delimited(5, RAW))),
            BLOB,
            "is of shape [4611686018427387904, 4611686018427387904] and holds 2400 numbers",
        ),
        (
            model(("fc", shape(60, 40) + delimited(5, RAW))),
            NODE,
            "InnerProduct has blob 0 (weight) of shape [60, 40], but it needs [40, 60]",
        ),
        (model(("fc2", PACKED)), NODE, "InnerProduct has no weights: {}/net.caffemodel holds none of a layer 'fc'"),
        (None, NODE, "InnerProduct has no weights"),
    ],
)
def test_bad_weights(caffe: Any, data: bytes | None, where: str, message: str) -> None:
    text, weights = caffe.save(FC % PARAM, data)
    with pytest.raises(CompileError) as e:
        caffe.load_text(text.read_text(), weights=None if data is None else weights)
    assert e.value.where == f"{caffe.folder}/{where}"
    assert e.value.message == message.format(caffe.folder)


def test_hints(caffe: Any) -> None:
    for data, hint in (
        (None, "--weights net.caffemodel gives them"),
        (model(("a", PACKED)), "weights are found by the layer's name"),
        (b"\x89HDF\r\n\x1a\n", "this is HDF5: Caffe's `snapshot_format: BINARYPROTO` writes what is read here"),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "this is a Git LFS pointer: `git lfs pull` gets the file itself",
        ),
    ):
        weights = caffe.save("", data)[1]
        with pytest.raises(CompileError) as e:
            caffe.load_text(FC % PARAM, weights=None if data is None else weights)
        assert e.value.hint == hint


def test_number_of_blobs(caffe: Any, new_net: Any) -> None:
    net = new_net((1, 60))
    net.add("fc", "InnerProduct", blobs=[NUMBERS], inner_product_param={"num_output": 40})
    with pytest.raises(
        CompileError, match=r"node 'fc': .* has 1 blobs, but it needs 2: weight \[40, 60\], bias \[40\]$"
    ):
        caffe.load(net)


def test_two_layers_of_one_name(caffe: Any) -> None:
    text = FC % PARAM + FC.partition("\n")[2].replace('"y"', '"z"') % PARAM
    with pytest.raises(CompileError, match="has the name 'fc' as others have; weights are found by the layer's name"):
        caffe.load_text(text, weights=caffe.save("", model(("fc", PACKED)))[1])


def test_numbers_that_are_too_large(caffe: Any) -> None:
    """As Caffe converts them: to infinity."""
    text = 'input: "data" input_shape { dim: [1, 1] }' + FC.partition("\n")[2] % PARAM.replace("40", "1")
    blob = shape(1, 1) + delimited(8, np.float64(1e300).tobytes())
    block = main_function(caffe.load_text(text, weights=caffe.save("", model(("fc", blob)))[1])).body.block
    assert [op.array.item() for op in block.ops if isinstance(op, nn.ConstantOp)] == [np.inf]


def test_missing_file(caffe: Any) -> None:
    with pytest.raises(CompileError, match=r"no\.caffemodel: error: cannot be read: No such file"):
        caffe.load_text(FC % PARAM, weights=caffe.folder / "no.caffemodel")


def test_weights_that_nothing_needs_are_told(caffe: Any, new_net: Any) -> None:
    net = new_net((1, 60))
    net.add("fc", "InnerProduct", blobs=[NUMBERS], inner_product_param={"num_output": 40, "bias_term": False})
    text = net.text
    net.add("fc_aux", "InnerProduct", "data", blobs=[NUMBERS], inner_product_param={"num_output": 40})
    caffe.load_text(text, weights=caffe.save("", net.binary)[1])
    assert caffe.remarks("unused-weights") == ["fc_aux: the prototxt has no layer of this name: its weights are unused"]


def test_file_goes_before_text(caffe: Any) -> None:
    """As in Caffe, weights in the text hold as long as no file says otherwise."""
    inline = "blobs { shape { dim: 1 dim: 1 } data: 3 } "
    text = 'input: "d" input_shape { dim: [1, 1] } layer { name: "fc" type: "InnerProduct" bottom: "d" top: "y" '
    text += inline + "inner_product_param { num_output: 1 bias_term: false } }"
    weights = caffe.save("", model(("fc", shape(1, 1) + delimited(5, np.float32(5).tobytes()))))[1]
    for path, expected in ((None, 3), (weights, 5)):
        block = main_function(caffe.load_text(text, weights=path)).body.block
        assert [op.array.item() for op in block.ops if isinstance(op, nn.ConstantOp)] == [expected]


@pytest.mark.parametrize("copies", [1, 2])
def test_shared_parameters(caffe: Any, new_net: Any, copies: int) -> None:
    """Layers that share a parameter by name share the constant, whether the file holds it once or for each."""
    net = new_net((1, 40))
    square = NUMBERS[:, :40].copy()
    for i, bottom in enumerate(("data", "a")):
        blobs = [square] if i < copies else []
        name = net.add(
            "ab"[i], "InnerProduct", bottom, blobs=blobs, inner_product_param={"num_output": 40, "bias_term": False}
        )
        net.proto.layer[-1].param.add(name="shared")
        assert name == "ab"[i]
    block = main_function(caffe.load(net)).body.block
    first, second = (op for op in block.ops if isinstance(op, nn.MatMulOp))
    assert first.rhs is second.rhs


def test_shared_parameter_of_another_shape(caffe: Any, new_net: Any) -> None:
    net = new_net((1, 40))
    for name, bottom, outputs in (("a", "data", 40), ("b", "a", 20)):
        weight = NUMBERS[:outputs, :40].copy()
        net.add(
            name,
            "InnerProduct",
            bottom,
            blobs=[weight],
            inner_product_param={"num_output": outputs, "bias_term": False},
        )
        net.proto.layer[-1].param.add(name="w")
    with pytest.raises(
        CompileError, match=r"node 'b': .* shares 'w' of shape \[40, 40\] as its weight, but it needs \[20, 40\]"
    ):
        caffe.load(net)


def test_a_net_is_read_without_its_weights_being_copied(
    caffe: Any, new_net: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """protobuf never sees the numbers of a large blob."""
    import amct_opt.formats.caffe.file as module

    seen: list[int] = []

    class Watching:
        @staticmethod
        def FromString(data: bytes) -> Any:
            seen.append(len(data))
            return BlobProto.FromString(data)

    monkeypatch.setattr(module, "BlobProto", Watching)
    net = new_net((1, 60))
    net.add("fc", "InnerProduct", blobs=[NUMBERS, NUMBERS[:, 0]], inner_product_param={"num_output": 40})
    caffe.load(net)
    assert len(seen) == 2
    assert max(seen) < 20


def test_messages_serve_writing(caffe: Any) -> None:
    """Numbers as bytes after the tag of a packed field: how large blobs are written fast."""
    net = NetParameter(name="w")
    proto = net.layer.add(name="fc", type="InnerProduct").blobs.add()
    proto.shape.dim.extend(NUMBERS.shape)
    proto.MergeFromString(delimited(5, RAW))
    path = caffe.save("", net.SerializeToString())[1]
    np.testing.assert_array_equal(read_weights(path)["fc"][0].shaped(NUMBERS.shape), NUMBERS)
