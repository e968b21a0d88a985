"""Commands that list what there is and measure this machine."""
