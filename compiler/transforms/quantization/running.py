"""Makes the runner of calibration from its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...engines import Runner, torch_installed
from ...engines.cluster import Storing, secured
from ...support.diagnostics import CompileError
from .options import ClusterOptions, EngineOptions
from .profiles import Profile


def sharing_runner(options: ClusterOptions) -> Runner:
    """Raises CompileError for a bad name of a cluster, certificates that do not fit it, and other options without one."""
    for option, what in (("checkpoint", "a checkpoint"), ("cluster_store", "a store of weights")):
        if getattr(options, option) is not None and options.cluster is None:
            hint = "give --cluster too, or leave it out"
            raise CompileError(f"{what} is for work on a cluster", hint=hint, option=option)
    cluster = secured(options.cluster, options.cluster_tls)
    if cluster is not None and options.cluster_store is not None:
        cluster = Storing(cluster, options.cluster_store)
    return Runner(cluster=cluster, checkpoint=None if options.checkpoint is None else Path(options.checkpoint))


def runner_of(options: EngineOptions, profile: Profile | None = None) -> Runner:
    """The runner: torch if `auto` may choose and numbers have to be those of the profile's AMCT for PyTorch.

    Raises CompileError for an engine that is not installed, threads that it does not have, or a bad cluster.
    """
    runner = replace(
        sharing_runner(options.sharing), engine=options.engine, threads=options.threads, device=options.device
    )
    as_amct = profile is not None and profile.amct == "pytorch"
    if not as_amct or runner != replace(runner, engine="auto", cluster=None, device="cpu") or not torch_installed():
        return runner
    return replace(runner, engine="torch", threads=None)
