"""Reads configurations of either format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .json_config import read_json
from .settings import Settings
from .simplified import read_simplified


def read_settings(path: Path) -> Settings:
    """The settings in a file: JSON if its name ends in .json, otherwise a simplified configuration.

    Raises CompileError, located at its line or layer, for a bad one.
    """
    read = read_json if path.suffix.lower() == ".json" else read_simplified
    return replace(read(path), as_amct=True)
