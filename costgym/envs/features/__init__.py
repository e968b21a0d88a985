"""What numeric observations show of a task, of a session and of writes."""
