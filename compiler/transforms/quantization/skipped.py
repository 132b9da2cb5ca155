"""How settings keep a layer float, for remarks."""

from __future__ import annotations

from collections.abc import Mapping

SKIPPED: Mapping[str, str] = {
    "skip-layers": "it is on the list of skip-layers",
    "skip-layer-types": "its type is on the list of skip-layer-types",
    "only-layers": "it is not on the list of only-layers",
    "quant-enable": "the configuration does not enable it",
    "weight-compress-only": "only weights are quantized, and it has no weight that can be quantized alone",
}
