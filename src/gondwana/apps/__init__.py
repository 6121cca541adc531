"""The applications that come with the library, by the names that ``gondwana run`` knows."""

registry: dict[str, str] = {
    "gray-scott": "gondwana.apps.grayscott.app",
}
"""Name to module. The module has ``main(argv) -> int``, run by every rank, and ``check(argv, ranks)``, which raises
UsageError for settings that cannot work; the launcher calls it before it starts any rank."""
