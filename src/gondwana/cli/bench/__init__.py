"""``gondwana bench``: one module for each family of benchmarks."""

from gondwana.cli.bench.command import bench as bench
