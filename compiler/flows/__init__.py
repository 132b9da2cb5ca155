"""The commands on a model file, from reading it to writing the results; `tools` adds arguments and printing."""
