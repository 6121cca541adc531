"""Settings of Hypothesis for all property tests: machines that run them are shared, so no example has a deadline."""

from hypothesis import settings

settings.register_profile("gondwana", deadline=None, max_examples=150)
settings.load_profile("gondwana")
