"""Files, errors, limits, registries and tables, which the rest of the package uses."""
