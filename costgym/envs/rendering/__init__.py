"""Rendering of episodes: a Gantt chart as data, as an image and as a page."""
