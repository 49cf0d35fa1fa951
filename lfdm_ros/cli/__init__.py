"""The `lfdm` command."""
