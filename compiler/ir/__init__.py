"""The parts of a module besides its operations: text, weights, element types, names, metadata."""

from . import undocumented as undocumented
