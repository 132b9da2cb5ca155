"""What the commands do with a model file, from reading it to writing the results; `tools` adds arguments and printing."""
