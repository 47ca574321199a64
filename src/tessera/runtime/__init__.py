"""A chip at work: devices, tensors, launch, observers, queues, events, traces, telemetry."""
