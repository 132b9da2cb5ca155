"""`amct evaluate --perplexity`: a decoder with a cache, and one without, against formulas in numpy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.flows import tokenizing
from amct_opt.flows.tokenizing import token_ids

from ..values import normal

WORDS, SIZE = 11, 4
EMBEDDING = normal(WORDS, SIZE)
HEAD = normal(SIZE, WORDS)


def decoder(
    path: Path, *, cached: bool = True, head: np.ndarray = HEAD, past: int | str = "P", outputs: tuple[str, ...] = ()
) -> Path:
    """The logits of a token: the sum of the embeddings up to it, times `head`. The cache holds embeddings [N, 1, P, SIZE]."""
    nodes = [helper.make_node("Gather", ["embedding", "input_ids"], ["e"])]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["N", "S"])]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", "S", WORDS])
    present = helper.make_tensor_value_info("present.0.key", TensorProto.FLOAT, ["N", 1, "T", SIZE])
    nodes.append(helper.make_node("CumSum", ["e", "one"], ["own"]))
    if cached:
        inputs.append(helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["N", "T"]))
        inputs.append(helper.make_tensor_value_info("past_key_values.0.key", TensorProto.FLOAT, ["N", 1, past, SIZE]))
        nodes += [
            helper.make_node("Unsqueeze", ["e", "ones"], ["new"]),
            helper.make_node("Concat", ["past_key_values.0.key", "new"], ["present.0.key"], axis=2),
            helper.make_node("ReduceSum", ["past_key_values.0.key", "twos"], ["before4"]),
            helper.make_node("Squeeze", ["before4", "ones"], ["before"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["mask"], ["ones2"], axes=[1], keepdims=1),  # 1: all tokens are seen
            helper.make_node("Unsqueeze", ["ones2", "twos"], ["ones3"]),
            helper.make_node("Mul", ["before", "ones3"], ["seen"]),
            helper.make_node("Add", ["own", "seen"], ["sum"]),
        ]
    nodes.append(helper.make_node("MatMul", ["sum" if cached else "own", "head"], ["logits"]))
    constants = {"embedding": EMBEDDING, "head": head, "one": np.array(1)}
    constants |= {"ones": np.array([1]), "twos": np.array([2])} if cached else {}
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    given = [logits, present] if cached else [logits]
    given = [each for each in given if not outputs or each.name in outputs]
    graph = helper.make_graph(nodes, "decoder", inputs, given, arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def logits_of(ids: np.ndarray, head: np.ndarray = HEAD) -> np.ndarray:
    return np.cumsum(EMBEDDING[ids].astype(np.float64), -2) @ head


def greedy(ids: list[int], count: int, head: np.ndarray = HEAD) -> list[int]:
    told: list[int] = []
    for _ in range(count):
        told.append(int(logits_of(np.array(ids + told), head)[-1].argmax()))
    return told


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six rows of eight token ids, and another array beside them."""
    path = tmp_path_factory.mktemp("ids") / "ids.npz"
    rows = np.random.default_rng(1).integers(0, WORDS, (6, 8))
    np.savez(path, test=rows, calibration=rows[:2])
    return path


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_perplexity_and_decoding_are_those_of_the_formulas(amct_tool, tmp_path: Path, ids: Path, engine: str) -> None:
    """With a cache, which is empty first and fed back, without one, and with another head."""
    other = HEAD + 0.6 * np.random.default_rng(2).normal(size=HEAD.shape).astype(np.float32)
    models = (
        decoder(tmp_path / "cached.onnx"),
        decoder(tmp_path / "plain.onnx", cached=False),
        decoder(tmp_path / "other.onnx", head=other),
    )
    given = ("--perplexity", f"{ids}:test", "--decode", "12", "--engine", engine, "--json")
    found = json.loads(amct_tool("evaluate", *models, *given).out)
    assert (found["windows"], found["window"], found["tokens"]) == (6, 8, 42)
    rows = np.load(ids)["test"]
    prompts = [rows[i, :4].tolist() for i in (0, 1, 3, 5)]
    expected = [greedy(prompt, 12) for prompt in prompts]
    for each, head in zip(found["models"], (HEAD, HEAD, other), strict=True):
        logits = logits_of(rows, head)[:, :-1]
        shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        own = np.take_along_axis(shares, rows[:, 1:, None], 2)
        assert each["engine"] == engine
        assert each["perplexity"] == pytest.approx(float(np.exp(-np.log(own).mean())), rel=1e-5)
        assert each["same_next"] == (logits.argmax(2) == logits_of(rows)[:, :-1].argmax(2)).mean()
        told = [greedy(prompt, 12, head) for prompt in prompts]
        same = sum(a == b for one, two in zip(expected, told, strict=True) for a, b in zip(one, two, strict=True))
        assert each["decoded"]["same"] == same
        assert each["decoded"]["tokens_per_second"] > 0
    assert found["models"][1]["decoded"]["same_until"] == [12] * 4
    assert found["models"][2]["same_next"] < 1


def test_windows_of_another_length_and_the_tables(amct_tool, tmp_path: Path, ids: Path) -> None:
    model = decoder(tmp_path / "m.onnx")
    table = amct_tool("evaluate", model, model, "--perplexity", f"{ids}:test", "--window", "3", "--decode", "2").out
    assert f"24 tokens of {ids}:test, in 12 windows of 3" in table
    assert "+0.00 ± 0.00   100.00" in table
    assert "2 tokens written after each of 4 prompts" in table
    assert "8 of 8" in table


def test_in_python(amct_tool, tmp_path: Path, ids: Path) -> None:
    models = [decoder(tmp_path / "cached.onnx"), decoder(tmp_path / "plain.onnx", cached=False)]
    found = amct_opt.perplexity(models, f"{ids}:test", decode=3)
    said = amct_tool("evaluate", *models, "--perplexity", f"{ids}:test", "--decode", "3", "--json")
    assert [each.perplexity for each in found.models] == [each["perplexity"] for each in json.loads(said.out)["models"]]
    assert [found.same(each) for each in found.models] == [12, 12]
    assert repr(found).startswith("Perplexities(cached.onnx ")
    with pytest.raises(amct_opt.CompileError, match="too few for a window of 999"):
        amct_opt.perplexity(models[0], f"{ids}:test", window=999)


def test_a_folder_is_run_by_the_runtime_of_its_file(amct_tool, tmp_path: Path, ids: Path) -> None:
    file = decoder(tmp_path / "model.onnx")
    found = amct_tool("evaluate", tmp_path, "--perplexity", f"{ids}:test", "--json")
    (model,) = json.loads(found.out)["models"]
    assert (model["model"], model["engine"]) == (str(file), "onnxruntime")


def test_a_text_with_its_tokenizer(amct_tool, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: i for i, word in enumerate(["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="uv"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "text.txt").write_text("cd ab st op " * 10)
    np.save(tmp_path / "ids.npy", np.array([1, 0, 9, 7] * 10))
    model, window = decoder(tmp_path / "m.onnx"), ("--window", "16", "--json")
    given = ("--perplexity", tmp_path / "text.txt", "--tokenizer", tmp_path / "tokenizer.json")
    text = json.loads(amct_tool("evaluate", model, *given, *window).out)
    array = json.loads(amct_tool("evaluate", model, "--perplexity", tmp_path / "ids.npy", *window).out)
    assert text["tokens"] == 30
    assert text["models"] == array["models"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({**words, "zz": 11}, unk_token="uv"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "larger.json"))
    (tmp_path / "text.txt").write_text("cd ab st zz " * 10)
    given = ("--perplexity", tmp_path / "text.txt", "--tokenizer", tmp_path / "larger.json", "--window", "16")
    result = amct_tool("evaluate", model, *given)
    assert f"{tmp_path / 'larger.json'}: error: token 3 has id 11, beyond the 11 of {model}" in result.err


_NORMALIZED = {"type": "Precompiled", "precompiled_charsmap": "AQ=="}
_INDEXED = {"type": "Precompiled", "precompiled_charsmap": "CAAAAP//////////YWIA"}


@pytest.mark.parametrize(
    ("unknown", "normalizer", "message"),
    [
        ("[UNK]", None, "does not make tokens of the text: WordLevel error: Missing [UNK] token from the vocabulary"),
        ("a", _INDEXED, "does not make tokens of the text: index out of bounds: the len is 2"),
        ("a", _NORMALIZED, "is not a tokenizer: Precompiled: Error("),
    ],
)
def test_errors_and_panics_of_tokenizers_are_one_line(
    unknown: str, normalizer: dict[str, str] | None, message: str, tmp_path: Path
) -> None:
    pytest.importorskip("tokenizers")
    path = _tokenizer(tmp_path / "tokenizer.json", unknown, normalizer)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        token_ids(path, b"a word")
    assert str(error.value).startswith(message)


def test_a_tokenizer_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tokenizers")
    path = _tokenizer(tmp_path / "tokenizer.json", "a", None)
    assert np.frombuffer(token_ids(path, b"a b word"), np.int64).tolist() == [0, 1, 0]
    monkeypatch.setattr(tokenizing, "_MEMORY", 40 << 20)
    monkeypatch.setattr(tokenizing, "_SHARE", 0)
    with pytest.raises(ValueError, match="ended the process that read it, which may take 40 MB"):
        token_ids(path, b"a b " * 1_000_000)


def _tokenizer(path: Path, unknown: str, normalizer: dict[str, str] | None) -> Path:
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": unknown}
    parts = {"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "normalizer": normalizer, "model": model}
    path.write_text(json.dumps({"version": "1.0", **parts}), "utf-8")
    return path


def test_a_tokenizer_that_is_missing(amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, text = decoder(tmp_path / "m.onnx"), tmp_path / "text.txt"
    text.write_text("ab")
    damaged = tmp_path / "damaged.json"
    damaged.write_text("{}")
    for options, message in (
        ((), f"{text}: error: a text needs the tokenizer of the model\n  hint: give --tokenizer tokenizer.json"),
        (("--tokenizer", tmp_path / "none.json"), f"{tmp_path / 'none.json'}: error: there is no such tokenizer"),
    ):
        result = amct_tool("evaluate", model, "--perplexity", text, *options)
        assert (result.status, result.out) == (1, "")
        assert message in result.err
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    result = amct_tool("evaluate", model, "--perplexity", text, "--tokenizer", damaged)
    assert f"{damaged}: error: a tokenizer requires tokenizers\n  hint: pip install 'amct-opt[text]'" in result.err
    monkeypatch.undo()
    pytest.importorskip("tokenizers")
    result = amct_tool("evaluate", model, "--perplexity", text, "--tokenizer", damaged)
    assert f"{damaged}: error: is not a tokenizer: " in result.err


def test_ids_that_do_not_fit(amct_tool, tmp_path: Path, ids: Path) -> None:
    model = decoder(tmp_path / "m.onnx")
    np.savez(
        tmp_path / "x.npz", large=np.array([1, 11, 2]), short=np.arange(5), real=np.ones(4), negative=np.array([-1, 2])
    )
    x = tmp_path / "x.npz"
    for options, message in (
        ((f"{x}:large", "--window", "3"), f"{x}:large: error: token 1 has id 11, beyond the 11 of {model}"),
        (
            (f"{x}:short",),
            f"{x}:short: error: has 5 tokens, too few for a window of 128\n  hint: give a longer text, or a sh",
        ),
        ((f"{x}:real",), f"{x}:real: error: token ids must be integers [tokens] or [rows, tokens], not float64 [4]"),
        ((f"{x}:negative",), f"{x}:negative: error: token id -1 is negative"),
        ((ids,), f"{ids}: error: contains several arrays\n  hint: choose one: {ids}:"),
        (
            (f"{ids}:test", "--tokenizer", "t.json"),
            "holds token ids, which need no tokenizer\n  hint: leave out --tokenizer",
        ),
        ((tmp_path / "none.txt",), f"{tmp_path / 'none.txt'}: error: there is no such file"),
        ((f"{ids}:test", "--data", ids), "--data is not for --perplexity"),
        ((f"{ids}:test", "--window", "1"), "window must be at least 2, not 1"),
    ):
        result = amct_tool("evaluate", model, "--perplexity", *options)
        assert (result.status, result.out) == (1, "")
        assert message in result.err
    result = amct_tool("evaluate", model, "--labels", x, "--data", x, "--decode", "3")
    assert "--decode is for --perplexity" in result.err


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_models_that_are_no_decoders(amct_tool, tmp_path: Path, ids: Path, engine: str) -> None:
    fixed = decoder(tmp_path / "fixed.onnx", past=16)
    headless = decoder(tmp_path / "headless.onnx", outputs=("present.0.key",))
    lost = decoder(tmp_path / "lost.onnx", outputs=("logits",))
    swapped = onnx.load(decoder(tmp_path / "swapped.onnx"))
    concat = next(node for node in swapped.graph.node if node.op_type == "Concat")
    concat.input[0] = concat.input[1]
    onnx.save(swapped, tmp_path / "swapped.onnx")
    digits = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
    for model, message in (
        (fixed, "input 'past_key_values.0.key' is a cache of 16 tokens, but the first run has none to give"),
        (headless, "has no logits [1, 2, vocabulary] for 2 tokens; its outputs are a cache"),
        (lost, "input 'past_key_values.0.key' is a cache, but no output has its values after the run"),
        (
            tmp_path / "swapped.onnx",
            "output 'present.0.key' is float32 [1, 1, 4, 4], but input 'past_key_values.0.key' takes float32 [1, 1, 2, 4]",
        ),
        (digits, "no input is token ids, integers [batch, tokens]: it has image float32 [?, 1, 8, 8]"),
        (tmp_path / "none.onnx", "cannot be read: No such file or directory"),
    ):
        result = amct_tool("evaluate", model, "--perplexity", f"{ids}:test", "--engine", engine)
        assert (result.status, result.out) == (1, "")
        assert f"{model}: error: {message}" in result.err
