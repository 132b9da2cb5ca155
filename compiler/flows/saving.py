"""The files of a result, those of AMCT's commands and of `amct quantize`: their kinds and names, and writing AMCT's,
all of them or none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..frontends.folders import model_in
from ..lowering.ascend.fuse_requant import without_relu6
from ..session import Session
from ..session.catalogue import SAVED_MODEL
from ..support.diagnostics import CompileError
from ..support.files import filling, same_file
from ..targets import Target, target_named
from .options import ALSO


class Output(NamedTuple):
    """A file of the result: the part of its name after the prefix, and the target that writes it."""

    ending: str
    target: str
    options: Mapping[str, Any]
    deploys: bool = False
    """Whether the file contains the deployable model, in which Relu6 becomes Relu where that is exact."""


_EVERY = (Output("_quant.json", "fusion-info", {}, deploys=True),)
_ONNX = (
    Output("_fake_quant_model.onnx", "onnx", {}),
    Output("_deploy_model.onnx", "onnx-ascend", {}, deploys=True),
)
OUTPUTS: Mapping[str, tuple[Output, ...]] = {
    "onnx": (*_ONNX, Output("_record.txt", "record", {"flavour": "onnx"}), *_EVERY),
    "pytorch": (*_ONNX, Output("_record.txt", "record", {"flavour": "pytorch"}), *_EVERY),
    "tensorflow": (
        Output("_quantized.pb", "tf-ascend", {}, deploys=True),
        Output("_fake_quant_model.pb", "tf-fakequant", {}),
        Output("_record.txt", "record", {"flavour": "tensorflow"}),
        *_EVERY,
    ),
    "caffe": (
        Output(".prototxt", "caffe", {"form": "fake-quant"}),
        Output(".prototxt", "caffe", {"form": "deploy"}, deploys=True),
        Output("_record.txt", "record", {"flavour": "caffe"}),
        *_EVERY,
    ),
}
"""Output files by framework. The caffe target appends AMCT's endings to the names."""

_FRAMEWORKS = {
    ".onnx": "onnx",
    ".mlir": "onnx",
    ".pt2": "pytorch",
    ".prototxt": "caffe",
    ".caffemodel": "caffe",
}
"""Frameworks by file ending; all others are TensorFlow's."""


_NONE: Mapping[str, str] = {}


class Written(NamedTuple):
    """A file to be written: its target, its name, and whether it contains the deployable model."""

    target: Target
    name: str
    deploys: bool


@dataclass(frozen=True)
class Files:
    """The files of one result, in a folder and with a prefix; without a prefix their names begin with no underscore."""

    folder: Path
    prefix: str
    outputs: tuple[Written, ...]
    framework: str
    """The AMCT whose files they are."""

    def paths(self) -> list[Path]:
        """The files that may be created or replaced."""
        return [self._final(f) for target, name, _ in self.outputs for f in target.files(self.folder / name)]

    def besides(self, kept: Path) -> Files:
        """The files without this one, which stays as it is."""
        outputs = (
            each for each in self.outputs if not any(same_file(f, kept) for f in replace(self, outputs=(each,)).paths())
        )
        return replace(self, outputs=tuple(outputs))

    def check(self, module: ModuleOp, session: Session) -> None:
        """Raise CompileError if an operation of a module that is about to be quantized cannot be written to one of the files."""
        for target, _, _ in self.outputs:
            target.check(module, session)

    def check_bits(self, layer: str, bits: int, where: str) -> None:
        """Raise CompileError, located at `where`, if a file cannot represent a layer whose input has this many bits."""
        for target, name, _ in self.outputs:
            if bits not in target.activation_bits:
                held = " or ".join(f"INT{n}" for n in sorted(target.activation_bits))
                file = self._final(target.files(Path(name))[0])
                message = f"layer '{layer}': dst_type INT{bits} has no form in {file}, which holds {held}"
                raise CompileError(message, where=where, hint="amct quantize simulates it, without a deployable file")

    def write(self, module: ModuleOp, session: Session, texts: Mapping[str, str] = _NONE) -> tuple[Path, ...]:
        """Write a quantized `nn` module, all files or none, and with them `texts`, by the names of their files.

        The folder is made when missing. Returns the files written.
        """
        finals: list[Path] = []
        deployable = without_relu6(module, session)
        with filling(self.folder) as temporary:
            for target, name, deploys in self.outputs:
                for written in target.write(deployable if deploys else module, temporary / name, session):
                    final = self._final(written)
                    written.replace(final)
                    finals.append(self.folder / final.name)
            for name, text in texts.items():
                (temporary / name).write_text(text, "utf-8")
                finals.append(self.folder / name)
        return tuple(finals)

    def _final(self, path: Path) -> Path:
        return path if self.prefix else path.with_name(path.name.removeprefix("_"))


def files_of(model: Path, save_path: str, framework: str | None = None) -> Files:
    """The files for a model, or those of another `framework` than its file's. `save_path` is a folder and a prefix, which is
    empty where it ends in `/`.

    Raises CompileError if it is not a folder.
    """
    folder, slash, prefix = save_path.rpartition("/")
    path = Path(folder or slash or ".")
    if path.exists() and not path.is_dir():
        raise CompileError("cannot be written: not a folder", where=str(path))
    framework = framework or framework_of(model)
    written = (
        Written(target_named(o.target)(**o.options), _name(prefix, o.ending), o.deploys) for o in OUTPUTS[framework]
    )
    return Files(path, prefix, tuple(written), framework)


def deployed(model: Path) -> Written:
    """The deployable file for a model, of its framework's AMCT: the input of ATC."""
    output = next(each for each in OUTPUTS[framework_of(model)] if each.deploys)
    target = target_named(output.target)(**output.options)
    return Written(target, target.files(Path(f"{frontends.stem(model)}{output.ending}"))[0].name, True)


def outputs_of(model: Path, folder: Path, also: Collection[str] = (*ALSO, "deploy")) -> dict[str, Path]:
    """The files of a result, by role, `also` those that not every result has. The ONNX file of a folder keeps its name, by which
    the folder's configuration finds it.
    """
    file = model_in(model)
    stem = frontends.stem(file)
    extra = {
        "deploy": deployed(file).name,
        "nn": f"{stem}_nn.mlir",
        "ascend": f"{stem}_ascend.mlir",
        "record": f"{stem}_record.txt",
    }
    names = {
        "onnx": f"{stem}_qdq.onnx" if file == model else file.name,
        **{role: name for role, name in extra.items() if role in also},
        "remarks": "remarks.yaml",
        "summary": "summary.json",
    }
    return {role: folder / name for role, name in names.items()}


def framework_of(model: Path) -> str:
    """The framework whose files are written for a model: onnx, pytorch, tensorflow or caffe."""
    ending = SAVED_MODEL if model.is_dir() else model.suffix.lower()
    return _FRAMEWORKS.get(ending, "tensorflow")


def _name(prefix: str, ending: str) -> str:
    """The name of a file; for the caffe target it must not be a bare ending."""
    return f"{prefix}{ending}" if prefix or ending.startswith(".") else ending.removeprefix("_")
