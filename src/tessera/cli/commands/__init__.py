"""One module per subcommand: `EXAMPLES`, `add_arguments(parser)` and `run(args) -> exit code`."""
