"""Tables in and out: readers, sinks, the ledger, and the store below them all."""
