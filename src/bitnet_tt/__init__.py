"""BitNet on TT-NN, as any client would write it. Not built yet."""
