"""`layer:1`: how AMCT's records, and options, name an input of a layer that is quantized by itself."""

from __future__ import annotations


def tensor_parts(name: str) -> tuple[str, int]:
    """Layer and index; the whole text and -1 for text of another form."""
    layer, _, index = name.rpartition(":")
    return (layer, int(index)) if layer and index.isascii() and index.isdigit() else (name, -1)
