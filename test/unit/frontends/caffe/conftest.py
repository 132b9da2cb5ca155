"""Small nets as prototxt and caffemodel, what becomes of them, and what OpenCV makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from xdsl.dialects.builtin import ModuleOp

from amct_opt.formats.caffe.schema import BlobProto, NetParameter
from amct_opt.frontends.caffe import read
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions, Session
from amct_opt.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]


def fill(message: Any, values: Mapping[str, Any]) -> Any:
    """Sets fields, those of messages in it too, from Python values; enums by name."""
    message.SetInParent()
    for name, value in values.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if isinstance(value, Mapping):
            fill(getattr(message, name), value)
        elif isinstance(value, list | tuple):
            getattr(message, name).extend(value)
        elif isinstance(value, str) and field.enum_type is not None:
            setattr(message, name, field.enum_type.values_by_name[value].number)
        else:
            setattr(message, name, value)
    return message


def blob(array: Array) -> Any:
    proto = BlobProto(data=np.ravel(array).tolist())
    proto.shape.SetInParent()
    proto.shape.dim.extend(array.shape)
    return proto


class Net:
    """Collects layers. The text leaves the blobs out, the binary holds them, as Caffe's two files do."""

    def __init__(self, shape: Sequence[int] = (), name: str = "net", blob: str = "data"):
        self.proto = NetParameter(name=name)
        if shape:
            self.proto.layer.add(name=blob, type="Input", top=[blob]).input_param.shape.add(dim=shape)

    def add(
        self,
        name: str,
        kind: str,
        bottom: str | Sequence[str] = "data",
        top: str | Sequence[str] = "",
        blobs: Sequence[Array] = (),
        **params: Mapping[str, Any],
    ) -> str:
        """Adds a layer; returns the name of its first top, which is its own unless given."""
        bottoms = [bottom] if isinstance(bottom, str) else [*bottom]
        tops = [top or name] if isinstance(top, str) else [*top]
        layer = self.proto.layer.add(name=name, type=kind, bottom=bottoms, top=tops)
        layer.blobs.extend([blob(b) for b in blobs])
        for key, values in params.items():
            fill(getattr(layer, key), values)
        return tops[0]

    @property
    def text(self) -> str:
        bare = NetParameter()
        bare.CopyFrom(self.proto)
        for layer in (*bare.layer, *bare.layers):
            layer.ClearField("blobs")
        return text_format.MessageToString(bare)

    @property
    def binary(self) -> bytes:
        return self.proto.SerializeToString(deterministic=True)


@dataclass
class Caffe:
    """Files in a folder of the test's own."""

    folder: Path
    session: Session

    def save(self, text: str, binary: bytes | None = None, name: str = "net") -> tuple[Path, Path]:
        text_path, binary_path = self.folder / f"{name}.prototxt", self.folder / f"{name}.caffemodel"
        text_path.write_text(text, "utf-8")
        if binary is not None:
            binary_path.write_bytes(binary)
        return text_path, binary_path

    def load(self, net: Net, **options: Any) -> ModuleOp:
        """The net as a verified module, through its files."""
        text, weights = self.save(net.text, net.binary)
        self.session.imports = ImportOptions(**{"weights": weights, **options})
        module = read(text, self.session)
        verify(module)
        return module

    def load_text(self, text: str, **options: Any) -> ModuleOp:
        """The net of a text that needs no weights, or holds them."""
        self.session.imports = ImportOptions(**options)
        module = read(self.save(text)[0], self.session)
        verify(module)
        return module

    def run(self, net: Net, inputs: Mapping[str, Array], **options: Any) -> dict[str, Array]:
        return run(self.load(net, **options), inputs)

    @staticmethod
    def opencv(net: Net, inputs: Mapping[str, Array], layers: Sequence[str] = ()) -> list[Array]:
        """What OpenCV computes, without its fusions; `layers` are names of layers, not of blobs."""
        cv2 = pytest.importorskip("cv2")
        loaded = cv2.dnn.readNetFromCaffe(
            np.frombuffer(net.text.encode(), np.uint8), np.frombuffer(net.binary, np.uint8)
        )
        loaded.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        loaded.enableFusion(False)
        loaded.enableWinograd(False)
        for name, array in inputs.items():
            loaded.setInput(array, name)
        return [np.array(a) for a in loaded.forward([*layers] or [net.proto.layer[-1].name])]

    def remarks(self, rule: str = "") -> list[str]:
        """Layer and reason of each remark, of one rule."""
        return [f"{r.layer}: {r.reason}" for r in self.session.remarks if not rule or r.rule == rule]


@pytest.fixture
def caffe(tmp_path: Path) -> Caffe:
    return Caffe(tmp_path, new_session())


@pytest.fixture
def new_net() -> Callable[..., Net]:
    return Net


def close(actual: Array, expected: Array, tolerance: float = 2e-6) -> None:
    """Equal in shape, and to within a part of the largest value."""
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= tolerance * max(np.abs(expected).max(), 1e-6)


@pytest.fixture
def assert_close() -> Callable[..., None]:
    return close
