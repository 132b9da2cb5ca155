"""What quantization does, frozen: a redesign that changes no result gives an equal dump.

    python benchmarks/frozen.py DUMP.zip [MODEL ...]

Without DUMP.zip it is written; with it, the same is made again and compared: the script prints `equal`, or what differs and exits
with 1. Each network (60 of `test/fuzz`, those of `examples`, and the MODELs) is quantized for each profile with each set of
options. The dump has the text behind `--insert-observers`, all remarks in their order, and the hashes of all files of
`amct quantize`; or the error in their place.
"""

from __future__ import annotations

import difflib
import hashlib
import multiprocessing
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SEED, GRAPHS = 4800, 60
PROFILES = ("ascend", "ascend-a2", "qdq", "ppq")
_CONFIGURATION = """\
batch_num: 1
activation_offset: false
joint_quant: true
common_config { hfmg_quantize { num_of_bins: 512 } arq_quantize { channel_wise: false quant_bits: 6 } }
override_layer_types { layer_type: "Conv" calibration_config { ifmr_quantize { max_percentile: 0.999 } } }
"""
_COMMON: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "nearest": {"round_weights": "nearest", "correct_bias": False},
    "other widths": {"bits": 16, "weight_bits": 4, "portable": "off"},
    "tensors": {"channel_wise": False, "activation_offset": False, "weights_first": True, "observer": "minmax"},
    "weights in groups": {"weight_only": True, "weight_bits": 4, "group_size": 32, "weight_asymmetric": True},
    "dynamic": {"dynamic": True},
    "floats of 8 bits": {"weight_format": "fp8-e4m3", "activation_format": "fp8-e4m3"},
    "floats of 4 bits": {"weight_only": True, "weight_format": "mxfp4", "embeddings": True},
    "configuration": {"config": _CONFIGURATION},
}
_LAYERS: Mapping[str, Mapping[str, Any]] = {
    "shifted": {"joint_quant": True, "shift": True},
    "balanced": {"dmq": 0.5, "equalize": False},
    "float16": {"fakequant_precision_mode": "FORCE_FP16_QUANT"},
}
_VALUES: Mapping[str, Mapping[str, Any]] = {
    "aligned": {
        "align_elementwise": "output",
        "align_concat": "large",
        "align_pooling": "input",
        "fuse_passive_op": True,
    },
    "not aligned": {
        "align_elementwise": "none",
        "align_concat": "none",
        "fuse_activation": False,
        "portable": "strict",
    },
    "overlapping": {"force_alignment_overlap": True, "align_resize": "output", "rotate": True},
}
OPTIONS = {name: _COMMON | (_LAYERS if name.startswith("ascend") else _VALUES) for name in PROFILES}
"""By profile, twelve sets of options of `quantize_file`."""


def networks(folder: Path, models: Sequence[str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The networks in files and how they are read: those of fixed seeds, those of the examples, and further ones."""
    sys.path.insert(0, str(ROOT / "test"))
    from fuzz.campaign import format_of, maker  # pyright: ignore[reportMissingImports]
    from fuzz.graph import Refused  # pyright: ignore[reportMissingImports]

    endings = {"onnx": "onnx", "tensorflow": "pb", "caffe": "prototxt"}
    for seed in range(SEED, SEED + GRAPHS):
        with suppress(Refused):
            case = maker(format_of(seed))(seed, folder / f"{seed}.{endings[format_of(seed)]}")
            yield case.path, case.imports
    yield from ((ROOT / "examples" / name, {}) for name in ("digits/digits.onnx", "models/transformer.onnx"))
    yield from ((Path(model).resolve(), {}) for model in models)


def made(task: tuple[Path, Mapping[str, Any], str]) -> dict[str, str]:
    """The entries of a network for a profile, by name."""
    model, imports, profile = task
    found: dict[str, str] = {}
    for label, options in OPTIONS[profile].items():
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()):
            given = dict(options)
            if "config" in given:
                (Path(folder) / "simple.cfg").write_text(given["config"])
                given["config"] = str(Path(folder) / "simple.cfg")
            for part, text in _parts(model, imports, profile, given, Path(folder)):
                found[f"{model.name}/{profile}/{label}/{part}"] = text.replace(folder, "FOLDER").replace(
                    f"{model.parent}/", ""
                )
    return found


def _parts(
    model: Path, imports: Mapping[str, Any], profile: str, options: Mapping[str, Any], folder: Path
) -> Iterator[tuple[str, str]]:
    """The text behind observers, the remarks of it, and the remarks and hashes of the files of `amct quantize`."""
    import amct_opt
    from amct_opt import frontends
    from amct_opt.flows.network import simplify_and_fuse
    from amct_opt.flows.options import ALSO
    from amct_opt.ir.exact_text import WeightSink
    from amct_opt.ir.text import module_text
    from amct_opt.pipelines.options import from_keywords
    from amct_opt.support.diagnostics import CompileError, remarks_yaml
    from amct_opt.transforms.quantization.options import AllOptions
    from amct_opt.transforms.quantization.place.insert_observers import insert_observers
    from amct_opt.transforms.quantization.request import request_of

    def new_session() -> amct_opt.Session:
        session = amct_opt.new_session()
        session.profile, session.prints = profile, ()
        session.imports = amct_opt.ImportOptions(**imports)
        return session

    try:
        session = new_session()
        module = frontends.read(model, session)
        request = request_of(from_keywords(AllOptions, "quantize", options).quantization, session)
        simplify_and_fuse(request, module, session)
        insert_observers(module, request, session)
        yield "observers", module_text(module, sink=WeightSink())
        yield "observers-remarks", remarks_yaml(session.remarks)
        summary = amct_opt.quantize_file(model, folder / "out", session=new_session(), also=ALSO, **options)
    except Exception as e:  # a bug is an entry, too: the rest is compared nevertheless
        yield "error" if isinstance(e, CompileError) else "bug", f"{type(e).__name__}: {e}"
        return
    yield "remarks", summary.files["remarks"].read_text("utf-8")
    files = (path for path in sorted((folder / "out").iterdir()) if path.suffix not in (".yaml", ".json"))
    yield "files", "".join(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in files)


def dump(folder: Path, models: Sequence[str]) -> dict[str, str]:
    """All entries, by name."""
    tasks = [(*network, profile) for network in networks(folder, models) for profile in PROFILES]
    found: dict[str, str] = {}
    with multiprocessing.get_context("spawn").Pool() as pool:
        for i, each in enumerate(pool.imap_unordered(made, tasks), 1):
            found.update(each)
            print(f"\r{i} of {len(tasks)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return dict(sorted(found.items()))


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """What differs, with the first lines of it."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            lines = difflib.unified_diff(
                (old or "").splitlines(), (new or "").splitlines(), "before", "after", "", "", 0
            )
            yield "\n".join([name, *islice(lines, 12)])


def main(path: Path, models: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = dump(Path(folder), models)
    if not path.exists():
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in found.items():
                archive.writestr(name, text)
        print(f"{path}: {len(found)} entries")
        return 0
    with zipfile.ZipFile(path) as archive:
        before = {name: archive.read(name).decode() for name in archive.namelist()}
    apart = list(differences(before, found))
    print("\n\n".join(apart) if apart else "equal")
    return bool(apart)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
