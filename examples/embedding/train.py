"""Train the network of this example, in numpy: two dense layers on the digits of scikit-learn. Writes digits.toy, digits.npz."""

import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).resolve().parent
GAIN = 0.125
"""After the first layer, whose weights are trained with it."""
LAYERS = [
    {"kind": "flatten", "name": "flatten"},
    {"kind": "dense", "name": "fc1"},
    {"kind": "gain", "name": "gain1", "factor": GAIN},
    {"kind": "squash", "name": "squash1"},
    {"kind": "dense", "name": "fc2"},
]


def main() -> None:
    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    images, labels = images / 8 - 1, np.eye(10)[labels]
    kept = np.random.default_rng(0).permutation(len(images))[:1400]
    images, labels = images[kept], labels[kept]
    w = {
        "fc1.weight": rng.normal(0, 1, (64, 32)),
        "fc1.bias": np.zeros(32),
        "fc2.weight": rng.normal(0, 0.3, (32, 10)),
        "fc2.bias": np.zeros(10),
    }
    moments = {k: (np.zeros_like(v), np.zeros_like(v)) for k, v in w.items()}
    for step in range(1, 401):
        hidden = (images @ w["fc1.weight"] + w["fc1.bias"]) * GAIN
        squashed = hidden / (1 + np.abs(hidden))
        logits = squashed @ w["fc2.weight"] + w["fc2.bias"]
        exponents = np.exp(logits - logits.max(1, keepdims=True))
        error = (exponents / exponents.sum(1, keepdims=True) - labels) / len(images)
        back = error @ w["fc2.weight"].T / (1 + np.abs(hidden)) ** 2 * GAIN
        gradients = {
            "fc1.weight": images.T @ back,
            "fc1.bias": back.sum(0),
            "fc2.weight": squashed.T @ error,
            "fc2.bias": error.sum(0),
        }
        for key, gradient in gradients.items():
            first, second = moments[key]
            first += 0.1 * (gradient - first)
            second += 0.01 * (gradient**2 - second)
            w[key] = w[key] - 0.03 * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    np.savez(HERE / "digits.npz", **{k: v.astype(np.float32) for k, v in w.items()})
    net = {"input": {"name": "image", "shape": [1, 8, 8]}, "layers": LAYERS, "output": "logits"}
    (HERE / "digits.toy").write_text(json.dumps(net, indent=2) + "\n")


if __name__ == "__main__":
    main()
