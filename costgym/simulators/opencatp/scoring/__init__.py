"""Score plans: similarity measures, the outcome table of executed tools, and Quality of Plan."""
