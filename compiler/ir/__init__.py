"""The parts of a module besides its operations: text, weights, element types, names, metadata."""
