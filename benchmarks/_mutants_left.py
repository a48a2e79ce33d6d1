"""Why no test notices some changes, by file and change: the code does the same with them, or about the same."""

REASONS = {}
