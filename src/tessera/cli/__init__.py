"""The `tessera` command: a table of subcommands (`main.COMMANDS`), one module each under `commands/`."""
