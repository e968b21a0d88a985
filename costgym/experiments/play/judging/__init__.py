"""A language model that judges recorded answers, beside the grading by facts."""
