"""Policies at stages of training runs, the behaviour of the named datasets `medium`, `mixed` and `replay`."""
