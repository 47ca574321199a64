"""The operations of TT-NN, a file or folder for each family."""
