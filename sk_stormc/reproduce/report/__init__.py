"""One report of all the paper's experiments: what was claimed, what was measured, and a verdict by a stated rule."""
