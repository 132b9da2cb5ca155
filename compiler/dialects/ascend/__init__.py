"""The `ascend` dialect: operations named as Huawei's Ascend IR names them, with explicit integer semantics."""

from __future__ import annotations

from xdsl.ir import Dialect

ASCEND = Dialect("ascend", [], [])
