"""Reading TensorFlow models: frozen graphs, SavedModels and Keras files into `nn`.

`source` (file to parsed model, with `saved_model` under it), `interface` (inputs and outputs), `graph` (nodes and edges),
`importer` (symbolic execution), `node` (the view for converters), `ops` (converters, a module per family), `opaque` (what `nn`
cannot express), `keras` (Keras files, and objects of a running program). Only `keras` and carried operators import TensorFlow.
"""

from .importer import read
from .keras import from_function, from_graph, from_keras

__all__ = ["from_function", "from_graph", "from_keras", "read"]
