"""How long the chip would take. A place for the roofline models; none is built yet."""
