"""The name under which entry scripts find what a process offers them."""
