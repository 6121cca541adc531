"""The settings of pairwise clustering, by their names in the programs of Fox and Ekanayake."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
Size = Annotated[float, Meta(ge=0.0, le=1e18)]


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of a run.

    Attributes:
        DistanceMatrixFile: dissimilarities: 16-bit integers, row after row, 32767 for 1; or a square array of NumPy
            (name ends in .npy) of int16, float32 or float64. -32767 (-1.0 for floats) marks a missing one.
        ClusterFile: stem of the names of the files with the cluster of each point; "" writes none.
        CenterFile: the same for the files with the centre of each cluster.
        LabelFile: true labels of the points, the last word of each line, to compare the result with; "" for none.
        NumberDataPoints: number of points; -1 takes it from the size of the file.
        MaxNcent: largest number of clusters.
        TooSmallToSplit: clusters with fewer points are not split.
        MinimumCountForClusterCk: clusters with fewer points are removed at the end.
        MinEigTest: a cluster is split if its lowest eigenvalue is below this times the largest one.
        WaitIterations: steps of temperature between two tests for splits.
        EpsiMaxChange: change of a potential, by T, below which the iteration at a temperature T ends.
        InitialCoolingFactor: factor of the temperature in a step before the first split.
        FineCoolingFactor: the same after it.
        EigenValueChange: relative change of an eigenvalue at which the power method ends.
        EigenVectorChange: square of the relative residual at which it ends.
        PowerIterationLimit: most iterations of the power method in each of its two passes.
        ConvergenceLoopLimit: most iterations at a temperature.
        IterationAtEnd: most steps of temperature at the end.
        FreezingLimit: the end is reached if, in each cluster, points belong to others by less than this.
        ContinuousClustering: whether clusters have weights.
        ConvergeIntermediateClusters: whether to write the result for each smaller number of clusters, too.
        IsBigEndian: whether the integers in the file have their higher byte first, as Java writes them.
        IsMemoryMapped: whether to leave the matrix in its file, of which the system keeps in memory what fits.
        Repetitions: times that the matrix of the file is repeated in both directions.
        Exchange: transport of parts of vectors to other ranks: "ring" or "allgather".
        CheckpointFile: common name of checkpoints, such as "pwc.bp"; "": no checkpoints.
        CheckpointSteps: temperatures between two checkpoints.
        Restart: whether to continue from the last checkpoint.
    """

    DistanceMatrixFile: str = "distance.bin"
    ClusterFile: str = "cluster.txt"
    CenterFile: str = "centers.txt"
    LabelFile: str = ""
    NumberDataPoints: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    MaxNcent: Count = 8
    TooSmallToSplit: Size = 5.0
    MinimumCountForClusterCk: Size = 24.5
    MinEigTest: Annotated[float, Meta(ge=-1.0, le=0.0)] = -0.01
    WaitIterations: Number = 10
    EpsiMaxChange: Share = 0.01
    InitialCoolingFactor: Share = 0.9
    FineCoolingFactor: Share = 0.99
    EigenValueChange: Share = 0.001
    EigenVectorChange: Share = 0.001
    PowerIterationLimit: Count = 200
    ConvergenceLoopLimit: Count = 2000
    IterationAtEnd: Count = 2000
    FreezingLimit: Share = 0.002
    ContinuousClustering: bool = False
    ConvergeIntermediateClusters: bool = False
    IsBigEndian: bool = False
    IsMemoryMapped: bool = False
    Repetitions: Count = 1
    Exchange: Literal["ring", "allgather"] = "ring"
    CheckpointFile: str = ""
    CheckpointSteps: Count = 50
    Restart: bool = False
