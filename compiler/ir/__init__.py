"""What a module is made of beside its operations: text, weights, element types, names, metadata."""
