"""The metadata of a module: tool, profile, observer, calibration data. Targets write it into their files."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr

METADATA = "nn.metadata"


def metadata(module: ModuleOp) -> dict[str, str]:
    """The module's metadata; empty if it has none. Names of files that are not UTF-8 are escaped."""
    attribute = module.attributes.get(METADATA)
    if not isinstance(attribute, DictionaryAttr):
        return {}
    entries = {k: v.data for k, v in attribute.data.items() if isinstance(v, StringAttr)}
    return {k: v.encode(errors="backslashreplace").decode() for k, v in entries.items()}


def add_metadata(module: ModuleOp, **entries: str) -> None:
    """Sets entries and keeps the others."""
    merged = {**metadata(module), **entries}
    module.attributes[METADATA] = DictionaryAttr({k: StringAttr(v) for k, v in merged.items()})


def tool_version() -> str:
    """`amct-opt 0.1.0`; without a number if the package is not installed."""
    try:
        return f"amct-opt {version('amct-opt')}"
    except PackageNotFoundError:
        return "amct-opt"
