"""Caffe: a prototxt with the net of inference, and the weights in a `.caffemodel`."""

from .importer import read

__all__ = ["read"]
