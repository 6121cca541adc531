"""``gondwana bench``: one module for each family of benchmarks."""

from gondwana_bench.cli.bench.command import bench as bench
