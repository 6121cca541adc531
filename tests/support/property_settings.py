"""Settings of Hypothesis for all property tests: machines that run them are shared, so no example has a deadline."""

from hypothesis import settings

settings.register_profile("gondwana", deadline=None, max_examples=50)
settings.register_profile("more", deadline=None, max_examples=500)


def pytest_configure(config):
    """Try more examples in `make test-more`."""
    settings.load_profile("more" if config.option.more else "gondwana")
