"""Source, prompts, engine, sink: how a work order becomes a table."""
