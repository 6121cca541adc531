"""Datasets and checkpoints.

For users: `writer.StepWriter` and `checkpoint` write, `dataset.Dataset` and `xarray_backend` read, `provenance` has
attributes for viewers, `stop.StopRequest` ends a run in order, `analysis` makes histograms and pictures. Beneath them:
`adios` (the only module that imports ADIOS2), `layout` (arrays on disk), `paths`, `listing`, and the way from the
ranks' blocks to one writing process: `aggregate`, `staging`, `background`.
"""
