"""A small compiler with amct-opt inside: a format, a dialect, passes and a target of its own, unknown to amct-opt.

`register` makes them known to a session. pyproject.toml names it, so that `amct-opt` knows them where this package is installed.
"""

from amct_opt import Session

from .dialect import TOY
from .fold_gain import FoldGainPass
from .frontend import read
from .header import HeaderTarget
from .lower import LowerToyPass
from .observer import SpreadObserver
from .profile import PROFILE


def register(session: Session) -> None:
    """Everything at once; each is of use without the others."""
    session.register_dialect(TOY.name, lambda: TOY)
    session.register_frontend(".toy", read)
    session.register_pass(FoldGainPass)
    session.register_pass(LowerToyPass)
    session.register_profile(PROFILE)
    session.register_observer("spread", SpreadObserver)
    session.register_target(HeaderTarget)
