"""Checks compilations by numbers: every pass beside the module before it, layer by layer, and files beside modules."""
