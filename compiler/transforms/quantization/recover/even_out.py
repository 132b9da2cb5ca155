"""The steps that change channels before quantization, and cancel out in float: rotation and equalization."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ....data import Samples
from ....engines import Runner
from ....pipelines.options import Parts
from ....session import Session, session_of
from ....session.catalogue import pass_named
from ..data import load, within
from ..options import (
    BY_DEFAULT,
    RECOVERY,
    DataOptions,
    EngineOptions,
    PointOptions,
    QuantizeOptions,
    SettingsOptions,
)
from ..request import Request, request_of
from ..running import runner_of


@dataclass(frozen=True, init=False)
class ChannelsPass(Parts, ModulePass):
    """The base of passes that change channels. Their options are those of the quantization that follows."""

    calibration: DataOptions
    settings: SettingsOptions
    points: PointOptions
    running: EngineOptions

    @staticmethod
    @abstractmethod
    def even(
        module: ModuleOp, request: Request, samples: Callable[[], Samples], session: Session, runner: Runner
    ) -> bool:
        """Change channels in place, if the request asks for it and where it is worth it. Returns whether any have changed.

        Raises CompileError, located, for NaN or Inf in the data or in what layers read, and for settings that name layers
        which the module does not have.
        """

    @staticmethod
    def applies(module: ModuleOp, session: Session) -> bool:
        """Whether the network has channels that can be changed, as far as that is known without data."""
        return True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        session, option = session_of(ctx), next(each.option for each in RECOVERY if each.name == self.name)
        recovery = replace(BY_DEFAULT, **{option: True})
        asked = QuantizeOptions(settings=self.settings, points=self.points, recovery=recovery)
        request = request_of(asked, session)
        data = within(self.calibration, request.settings)
        self.even(op, request, lambda: load(data, op, session), session, runner_of(self.running))


def channels_pass(name: str) -> type[ChannelsPass]:
    """The pass of a step that changes channels."""
    return cast("type[ChannelsPass]", pass_named(name))


def even_out(
    module: ModuleOp,
    request: Request,
    samples: Callable[[], Samples],
    session: Session,
    runner: Runner,
    around: Callable[[str], AbstractContextManager[object]],
) -> bool:
    """Run the steps that change channels, each with `around` its name. Returns whether any channels have changed.

    Raises CompileError like `ChannelsPass.even`.
    """
    changed = False
    for step in RECOVERY:
        if step.of_channels:
            with around(step.name):
                changed |= channels_pass(step.name).even(module, request, samples, session, runner)
    return changed
