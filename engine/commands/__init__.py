"""The engine's commands, a module each: `add` declares its options, the parser calls its `run`."""
