"""The parts of a carried layer besides its bottoms: blobs, which are its last operands, and its text in the prototxt."""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

from ...dialects import nn


def carried(blobs: int, text: str) -> DictionaryAttr | None:
    """The attributes of a layer with this many blobs, which `blobs_and_text` reads."""
    attributes: dict[str, Attribute] = {"blobs": IntegerAttr(blobs, i64)} if blobs else {}
    if text:
        attributes["text"] = StringAttr(text)
    return DictionaryAttr(attributes) if attributes else None


def blobs_and_text(op: nn.OpaqueOp) -> tuple[int, str]:
    """The number of operands that are blobs, and the text, empty if there is none."""
    attributes = (DictionaryAttr({}) if op.attrs is None else op.attrs).data
    blobs, text = attributes.get("blobs"), attributes.get("text")
    return blobs.value.data if isinstance(blobs, IntegerAttr) else 0, text.data if isinstance(text, StringAttr) else ""
