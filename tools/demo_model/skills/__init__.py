"""The tasks of the demo model; every module writes prompts with one right answer."""
