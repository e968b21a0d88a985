"""The compiled steps of the native vector environments."""
