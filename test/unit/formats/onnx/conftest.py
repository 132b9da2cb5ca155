"""Models to write to files."""

from ...frontends.onnx.conftest import build as build
