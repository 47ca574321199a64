"""Where graphs come from: torch modules (through torch.export), ONNX models (replayed as torch calls), native tracing."""
