"""Checks compilations by numbers: it compares every pass with the module before it, layer by layer, and files with modules."""
