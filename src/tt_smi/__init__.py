"""tt-smi: asks the machine how it is. Not built yet: the telemetry it will read is in tessera.runtime.telemetry."""
