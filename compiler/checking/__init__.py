"""Checks compilations by numbers: every pass next to the module before it, layer by layer, and files next to modules."""
