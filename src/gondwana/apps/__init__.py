"""The applications that come with the library, by the names that ``gondwana run`` knows."""

registry: dict[str, str] = {
    "gray-scott": "gondwana.apps.grayscott.app",
    "npb-mg": "gondwana.apps.npb.mg.app",
    "npb-ft": "gondwana.apps.npb.ft.app",
    "npb-cg": "gondwana.apps.npb.cg.app",
    "hpcg": "gondwana.apps.hpcg.app",
    "heat": "gondwana.apps.heat.app",
    "davs": "gondwana.apps.davs.app",
    "pwc": "gondwana.apps.pwc.app",
}
"""Name to module. The module has ``main(argv) -> int``, run by every rank, and ``check(argv, ranks)``, which raises
UsageError for settings that cannot work; the launcher calls it before it starts any rank. If it has ``DEVICES``, the
names of where its kernels can run, it takes one of them as ``--device NAME``: so it gets that of ``gondwana run``. If
it has ``inspected(argv)``, that returns the kernel of its steps with a domain and arguments, for ``gondwana inspect``.
"""
