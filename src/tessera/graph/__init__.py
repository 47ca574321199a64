"""One graph IR, its passes and executors: PyBuda's models and TT-NN's captured traces."""
