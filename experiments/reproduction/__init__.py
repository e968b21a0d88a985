"""The papers' tables beside ours."""
