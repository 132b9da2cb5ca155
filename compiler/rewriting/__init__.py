"""Rewriting that keeps locations, and the patterns whose legality conditions have names.

A `CheckedPattern` finds its structure (`match`) and names the conditions under which it is legal (class members made by
`condition`). `FusionPattern`, the one way to write a fusion, adds the folded numbers in float64 (`fold`) and the replacement
(`rewrite`). The base class does the rest: it checks the conditions, copies shared constants, rejects results that are not
finite, keeps locations, and records remarks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, reduce
from inspect import getattr_static
from itertools import chain, islice
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast, get_type_hints

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FusedLoc, LocationAttr, ModuleOp, NoneAttr, UnknownLoc
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from ..dialects.nn import (
    ConstantOp,
    DequantizeFloatOp,
    DequantizeOp,
    NNOp,
    ObserveOp,
    QuantizeFloatOp,
    QuantizeOp,
    constant_of,
)
from ..ir.array import Array
from ..ir.dtypes import finfo
from ..ir.layer_names import layer_name, modules_of, named_among
from ..session import Session, session_of
from ..support.diagnostics import Gain, Remark, RemarkKind, describe, op_error
from .driver import apply_patterns

M = TypeVar("M")
"""The dataclass of operations that a pattern matches."""
Op = TypeVar("Op", bound=Operation)
Roots = tuple[type[Operation], ...]
"""Classes of operations."""


_UNKNOWN = UnknownLoc()


_GROUP = 32
"""Number of parts of one depth that become one part of a fused location, so that a location of many places grows in little time.
"""


def fused_location(*ops: Operation) -> LocationAttr:
    """The locations of several operations as one, without duplicates among up to 32 of them; more are grouped, as a tree."""
    parts: dict[object, LocationAttr] = {}
    for op in ops:
        inner = op.location
        nested = cast("Iterable[LocationAttr]", inner.locations) if isinstance(inner, FusedLoc) else (inner,)
        for part in nested:
            if not isinstance(part, UnknownLoc):  # hashing a group takes as long as it is large
                parts.setdefault(id(part) if isinstance(part, FusedLoc) else part, part)
    if not parts:
        return _UNKNOWN
    found = list(parts.values())
    while len(found) > _GROUP and len({*map(_depth, found[-_GROUP:])}) == 1:
        found[-_GROUP:] = [FusedLoc(tuple(found[-_GROUP:]), NoneAttr())]
    return found[0] if len(found) == 1 else FusedLoc(tuple(found), NoneAttr())


def _depth(location: LocationAttr) -> int:
    depth = 0
    while isinstance(location, FusedLoc):
        location, depth = cast("LocationAttr", location.locations.data[0]), depth + 1
    return depth


def rewrite(module: ModuleOp, *patterns: RewritePattern, erase_dead: bool = True) -> bool:
    """Applies patterns until nothing changes; replaced operations pass their location on. True if something changed.

    A pattern with an attribute `roots`, classes of operations, is only tried on those.
    """
    changed = apply_patterns(module, patterns, erase_dead)
    if changed:
        for op in module.walk():
            if type(op) is ConstantOp:
                op.settle()
    return changed


def erase_dead_constants(module: ModuleOp) -> None:
    """Removes unused constants."""
    for op in [op for op in module.walk() if isinstance(op, ConstantOp) and not op.result.uses]:
        erase_constant(op)


def erase_constant(op: ConstantOp) -> None:
    """Removes an unused constant, and its array at once: operations are in reference cycles, which Python frees later."""
    op.detach()
    op.erase()
    op.properties.clear()


def layer_of(op: Operation) -> str:
    """The user's name of an operation (`layer_name`), for a point that of the layer that it belongs to."""
    if isinstance(op, ObserveOp):
        return op.point.data.rpartition(":")[0] or op.point.data
    return layer_name(op)


class Remarks:
    """The remarks of one pass, one per operation and rule, reported at its end; `applied` replaces `missed`."""

    def __init__(self, ctx: Context, pass_name: str):
        self.session: Session = session_of(ctx)
        self.pass_name = pass_name
        self._rows: dict[Operation, dict[str, Remark]] = {}

    def missed(self, op: Operation, rule: str, reason: str, gain: Gain | None = None) -> None:
        """Records a missed rule; the first reason for an operation and rule stays."""
        self._add("missed", op, rule, reason, gain)

    def applied(self, op: Operation, rule: str, reason: str, gain: Gain | None = None) -> None:
        self.forget(op)
        self._add("applied", op, rule, reason, gain)

    def forget(self, op: Operation) -> None:
        """Drops the remarks about an operation that became part of another fusion."""
        self._rows.pop(op, None)

    def note(self, op: Operation, rule: str, reason: str) -> None:
        """Records a fact that is neither applied nor missed."""
        self._add("analysis", op, rule, reason)

    def has(self, op: Operation) -> bool:
        return op in self._rows

    def of(self, op: Operation) -> list[Remark]:
        """The remarks about an operation so far."""
        return list(self._rows.get(op, {}).values())

    def _add(self, kind: RemarkKind, op: Operation, rule: str, reason: str, gain: Gain | None = None) -> None:
        rows = self._rows.setdefault(op, {})
        if rule not in rows:
            module = next(iter(modules_of(op)), "")
            where = describe(op.location)
            rows[rule] = Remark(kind, self.pass_name, rule, layer_of(op), op.name, reason, where, module, gain)

    def flush(self) -> Reported:
        """Reports the remarks to the session, except missed ones of operations that no longer exist, and returns them."""
        rows = ((op, remark) for op, each in self._rows.items() for remark in each.values())
        reported = [remark for op, remark in rows if remark.kind != "missed" or op.parent is not None]
        self._rows.clear()
        for remark in reported:
            self.session.remark(remark)
        return Reported(reported)

    def flush_requested(self, outcome: str, nothing: str) -> Reported:
        """Reports the remarks of a pass that the user asked for. If the pass changed nothing, the session warns of the `outcome`
        with the reason of the first missed remark. `nothing` is the reason if there is no such remark.
        """
        own = self.flush()
        if not own.applied:
            missed = next((remark for remark in own if remark.kind == "missed"), None)
            why = nothing if missed is None else f"'{missed.layer}' because {missed.reason}"
            self.session.warn(f"--{self.pass_name}: {outcome}; {why}")
        return own


class Reported(tuple[Remark, ...]):
    """The result of a pass: the remarks that it has reported."""

    @property
    def applied(self) -> bool:
        """Whether it has done something."""
        return any(remark.kind == "applied" for remark in self)


class Condition(Generic[M]):
    """A named legality condition: its name is the member's, its statement the docstring, the reason what `holds` returns."""

    def __init__(
        self,
        check: Callable[[Any, M], str | None],
        statement: str = "",
        paths: Sequence[str] = (),
        hint: str | None = None,
    ):
        self._check = check
        self.hint: str | None = hint
        """The advice if the condition is an error when it fails; None if it leaves a remark."""
        self.statement: str = statement or (check.__doc__ or "").strip()
        self.paths: tuple[str, ...] = tuple(paths)
        self.name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.replace("_", "-")

    def holds(self, pattern: CheckedPattern[M], match: M) -> str | None:
        """Checks the condition: None if it is met, otherwise the reason."""
        return self._check(pattern, match)


def condition(check: Callable[[Any, M], str | None]) -> Condition[M]:
    """Decorator: a method that returns None or the reason why the condition does not hold."""
    return Condition(check)


def strict(hint: str = "") -> Callable[[Callable[[Any, M], str | None]], Condition[M]]:
    """Decorator: a condition whose failure is an error. `{layer}` in the hint is the operation's name."""
    return lambda check: Condition(check, hint=hint)


def requires(holds: Callable[[Any], object], statement: str, reason: str | Callable[[Any], str]) -> Condition[Any]:
    """Makes a condition of one expression, `holds`, with its statement, and the reason if it fails."""

    def check(_: Any, match: Any) -> str | None:
        if holds(match):
            return None
        return reason if isinstance(reason, str) else reason(match)

    return Condition(check, statement)


def other_uses(value: SSAValue, producer: str) -> str | None:
    """The reason why a producer's result is not used exactly once; None if it is. A graph output is a use.

    Uses are counted only up to a limit: every reader of one value may ask.
    """
    if value.has_one_use():
        return None
    count = sum(1 for _ in islice(value.uses, _COUNTED + 1))
    return f"the result of {producer} has {count if count <= _COUNTED else f'more than {_COUNTED}'} uses"


_COUNTED = 10
"""Largest number of uses that are counted; above it, there are just many."""


def used_once(*paths: str) -> Condition[Any]:
    """The results of these matched operations have exactly one use. A graph output is a use."""

    def check(_: Any, match: Any) -> str | None:
        for path in paths:
            op = cast(Operation, _follow(match, path))
            if (reason := other_uses(op.results[0], layer_of(op))) is not None:
                return reason
        return None

    return Condition(check, f"the result of {_listed(paths)} is used once (a graph output is a use)", paths)


def constant(*paths: str) -> Condition[Any]:
    """Requires that these operands, where present, are constants."""

    def check(_: Any, match: Any) -> str | None:
        for path in paths:
            value = _follow(match, path)
            if value is not None and constant_of(cast(SSAValue, value)) is None:
                op, _, operand = path.rpartition(".")
                return f"{operand} of {layer_of(cast(Operation, _follow(match, op)))} is computed at run time"
        return None

    return Condition(check, f"{_listed(paths)} {'are' if len(paths) > 1 else 'is'} constant", paths)


def _listed(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{', '.join(paths[:-1])} and {paths[-1]}"


def _follow(match: object, path: str) -> object:
    return reduce(getattr, path.split("."), match)


class Folded(NamedTuple):
    """A constant that a fold makes: its key, the type it is rounded to, and its numbers in float64."""

    key: str
    dtype: np.dtype[Any]
    values: Array
    added: bool = False
    """Whether it is only added to the operation's result: underflow then loses no more than the rounding of the sum."""


class Refusal(NamedTuple):
    """The rule and the reason why a fusion is excluded, regardless of its conditions."""

    rule: str
    reason: str


Guard = Callable[[Sequence[Operation]], Refusal | None]
"""Called with the matched operations before any condition, so that users of a pass can select what is fused."""


def _match_class(cls: type) -> type | None:
    for base in getattr(cls, "__orig_bases__", ()):
        for argument in getattr(base, "__args__", ()):
            if isinstance(argument, type):
                return argument
    return None


def _check_paths(cls: type, match_class: type) -> None:
    """Checks the paths of conditions when the class is made, so that a typo fails before a graph matches."""
    given = [each for each in cast("type[CheckedPattern[Any]]", cls).conditions if each.paths]
    hints = get_type_hints(match_class) if given else {}
    for each in given:
        for path in each.paths:
            first, _, rest = path.partition(".")
            if first not in hints:
                raise TypeError(f"{cls.__name__}.{each.name}: {match_class.__name__} has no field '{first}'")
            owner = hints[first]
            if rest and isinstance(owner, type) and getattr_static(owner, rest.split(".")[0], None) is None:
                raise TypeError(f"{cls.__name__}.{each.name}: {owner.__name__} has no '{rest}'")


class CheckedPattern(RewritePattern, Generic[M]):
    """A rewrite of the operations in a match (a dataclass of operations) under named conditions.

    Subclasses set `name`, `roots` and conditions, and define `match`. Their docstring is the pattern's statement.
    """

    name: ClassVar[str]
    roots: ClassVar[Roots] = (Operation,)
    """The classes of possible roots of a match; `match` is called only for these."""
    conditions: ClassVar[tuple[Condition[Any], ...]] = ()

    def __init_subclass__(cls) -> None:
        members = {key: v for base in reversed(cls.__mro__) for key, v in vars(base).items()}
        cls.conditions = tuple(cast("Condition[Any]", v) for v in members.values() if isinstance(v, Condition))
        if (match_class := _match_class(cls)) is not None:
            _check_paths(cls, match_class)

    @abstractmethod
    def match(self, op: Operation) -> M | None:
        """The operations of the structure with root `op`; None if there is no match."""

    def subject(self, m: M, root: Operation) -> Operation:
        """The operation that remarks are about; the root unless overridden."""
        return root

    def require(self, m: M, subject: Operation) -> None:
        """Raises CompileError, located at `subject`, for the first strict condition that does not hold."""
        for each in self.conditions:
            if each.hint is not None and (reason := each.holds(self, m)) is not None:
                raise op_error(subject, reason, each.hint.format(layer=layer_of(subject)))

    def refusal(self, m: M) -> Refusal | None:
        """The first condition that fails, with the reason, apart from strict ones; None if all are met."""
        for each in self.conditions:
            if each.hint is None and (reason := each.holds(self, m)) is not None:
                return Refusal(each.name, reason)
        return None


class StepPattern(CheckedPattern[M]):
    """A rewrite of operations where they are, as a step of quantization. Subclasses define `match` and `rewrite`.

    A condition that does not hold leaves a remark about `subject`, or is an error if it is `strict`.
    """

    def __init__(self, remarks: Remarks):
        self.remarks = remarks

    @abstractmethod
    def rewrite(self, m: M, rewriter: PatternRewriter) -> None:
        """Changes the operations, and records what was done. What is rewritten must not match again."""

    def refused(self, m: M, refusal: Refusal) -> None:
        """Called after the remark about a condition that fails."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if (match := self.match(op)) is None:
            return
        subject = self.subject(match, op)
        self.require(match, subject)
        if (refusal := self.refusal(match)) is not None:
            self.remarks.missed(subject, *refusal)
            self.refused(match, refusal)
            return
        self.rewrite(match, rewriter)
        rewriter.has_done_action = True


def rewrites(*kinds: type[Op]) -> Callable[[Callable[[Op, PatternRewriter, Remarks], None]], type[Any]]:
    """Decorator: turns a function that rewrites an operation of these classes, or leaves it as it is, into a pattern without
    conditions. The function's docstring is the pattern's statement.
    """

    def made(function: Callable[[Op, PatternRewriter, Remarks], None]) -> type[Any]:
        class Rewrites(RewritePattern):
            __doc__ = function.__doc__
            name, roots, conditions = function.__name__.replace("_", "-"), kinds, ()

            def __init__(self, remarks: Remarks):
                self.remarks = remarks

            def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
                function(cast(Op, op), rewriter, self.remarks)

        return Rewrites

    return made


class FusionPattern(CheckedPattern[M]):
    """A fusion of the operations in a match (a dataclass of operations, the root last to compute).

    Subclasses also define `fold` and `rewrite`.
    """

    def __init__(self, remarks: Remarks, guards: Sequence[Guard] = ()):
        self.remarks = remarks
        self.guards = guards

    def fold(self, m: M) -> Sequence[Folded]:
        """The folded constants, computed in float64; nothing is changed yet."""
        return ()

    @abstractmethod
    def rewrite(self, m: M, folded: Sequence[SSAValue]) -> Sequence[Operation]:
        """Builds the operations that replace the root, from the constants of `fold`; the last one gives the result."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if (match := self.match(op)) is None:
            return
        parts, subject = matched_operations(match), self.subject(match, op)
        refusal, folded = self.tried(match)
        if refusal is not None:
            self.remarks.missed(subject, *refusal)
            return
        for read in {constant for part in parts for v in part.operands if (constant := constant_of(v)) is not None}:
            read.release()
        location = fused_location(*parts)
        made = [ConstantOp.beside(f.values, f.key, location) for f in folded]
        built = self.rewrite(match, [c.result for c in made])
        for each in built:
            each.location = location
        self.remarks.applied(subject, self.name, self.outcome(built[-1]))
        rewriter.replace(op, [*made, *built], [*built[-1].results])

    def tried(self, m: M) -> tuple[Refusal | None, Sequence[Folded]]:
        """The reason against the fusion, and the folded constants if there is none; nothing is changed yet."""
        parts = matched_operations(m)
        if skipped := named_among(parts, self.remarks.session.skip_fusion):
            self.remarks.session.fusions_skipped.update(skipped)
            return Refusal("skip-fusion", f"{skipped[0]} is on the list of --skip-fusion"), ()
        if len({p.parent_block() for p in parts}) > 1:
            return Refusal("one-region", "its operations are in different regions"), ()
        refusals = chain((guard(parts) for guard in self.guards), [self.refusal(m)])
        for refusal in (each for each in refusals if each is not None):
            return refusal, ()
        with np.errstate(all="ignore"):
            exact = self.fold(m)
            folded = [f._replace(values=f.values.astype(f.dtype)) for f in exact]
        if not all(np.isfinite(f.values).all() for f in folded):
            return Refusal("finite", "the folded numbers hold NaN or Inf"), ()
        for each, rounded in zip(exact, folded, strict=True):
            if not each.added and (reason := _underflow(each.values, rounded.values)) is not None:
                return Refusal("underflow", reason), ()
        return None, folded

    def outcome(self, built: Operation) -> str:
        """The text of the remark for the operation that gives the result."""
        return f"fused into {layer_of(built)}"

    @staticmethod
    def values(value: SSAValue | None) -> Array | None:
        """A constant operand's numbers in float64, None for an absent operand."""
        constant = constant_of(value)
        return None if constant is None else constant.array.astype(np.float64)


def _underflow(exact: Array, rounded: Array) -> str | None:
    """The reason why a type cannot represent numbers: subnormal ones lose more than rounding loses elsewhere.

    Root mean squares over all numbers are compared, so that single numbers near zero among larger ones do not matter.
    """
    limits = finfo(rounded.dtype)
    subnormal = np.abs(rounded) < limits.smallest_normal
    if not subnormal.any():
        return None
    lost = float(np.linalg.norm(exact[subnormal] - rounded[subnormal].astype(np.float64)))
    share = lost / float(np.linalg.norm(exact)) if lost else 0.0
    if share <= float(limits.eps) / 2:
        return None
    return f"underflow of {rounded.dtype.name} takes {share:.2%} of the folded numbers"


def matched_operations(match: object) -> list[Operation]:
    """The matched operations, in the order of the dataclass's fields; lists and tuples are flattened."""
    return list(_flat_operations(vars(match).values()))


def _flat_operations(parts: Iterable[object]) -> Iterator[Operation]:
    for part in parts:
        if isinstance(part, Operation):
            yield part
        elif isinstance(part, list | tuple):
            yield from _flat_operations(cast("Iterable[object]", part))


QUANTIZATION_OPS = (ObserveOp, QuantizeOp, QuantizeFloatOp, DequantizeOp, DequantizeFloatOp)
"""Operations that no fusion crosses."""


def nn_ops(module: ModuleOp, *classes: type[NNOp]) -> list[NNOp]:
    """All operations of these classes, in program order."""
    return [cast(NNOp, op) for op in module.walk() if _is_any(type(op), classes)]


@cache
def _is_any(kind: type, classes: tuple[type[NNOp], ...]) -> bool:
    return issubclass(kind, classes)
