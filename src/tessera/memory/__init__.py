"""Where bytes live: cores, shards, memory configs, specs, bank allocators."""
