"""Copies that a device makes: by its driver, or by its threads."""
