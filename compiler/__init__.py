"""amct-opt as a library: what an embedding compiler calls. Names are imported when first used."""

TYPE_CHECKING = False  # type checkers take it for typing's, which would be the first import
if TYPE_CHECKING:
    from .transforms.fusion.fuse_modules import fuse_modules

__all__ = ["fuse_modules"]


def __getattr__(name: str) -> object:
    if name != "fuse_modules":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from .transforms.fusion.fuse_modules import fuse_modules

    return fuse_modules
