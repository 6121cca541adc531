"""The settings of pairwise clustering, by the names that the programs of Fox and Ekanayake have for them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
Size = Annotated[float, Meta(ge=0.0, le=1e18)]


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that decides a run.

    Attributes:
        DistanceMatrixFile: dissimilarities: 16-bit integers, row after row, 32767 for 1; or a square array of NumPy
            (name ends in .npy) of int16, float32 or float64. -32767 (-1.0 for floats) marks a missing one.
        ClusterFile: the stem of the names of the files with the cluster of each point; "" writes none.
        CenterFile: the same for the files with the centre of each cluster.
        LabelFile: true labels of the points, the last word of each line, to compare the result with; "" for none.
        NumberDataPoints: points; -1 takes them from the size of the file.
        MaxNcent: largest number of clusters.
        TooSmallToSplit: clusters with fewer points are not split.
        MinimumCountForClusterCk: clusters with fewer points are removed at the end.
        MinEigTest: a cluster is split if its lowest eigenvalue is below this times the largest one.
        WaitIterations: steps of temperature between two tests for splits.
        EpsiMaxChange: the iteration at a temperature T ends if no potential changes by more than this times T.
        InitialCoolingFactor: of a step of temperature before the first split.
        FineCoolingFactor: the same after it.
        EigenValueChange: relative change of an eigenvalue at which the power method ends.
        EigenVectorChange: square of the relative residual at which it ends.
        PowerIterationLimit: most iterations of the power method in each of its two passes.
        ConvergenceLoopLimit: most iterations at a temperature.
        IterationAtEnd: most steps of temperature at the end.
        FreezingLimit: the end is reached if, in each cluster, points belong to others by less than this.
        ContinuousClustering: clusters have weights.
        ConvergeIntermediateClusters: also write the result for each smaller number of clusters.
        IsBigEndian: the integers in the file have their higher byte first, as Java writes them.
        IsMemoryMapped: leave the matrix in its file, of which the system keeps in memory what fits.
        Repetitions: the matrix is that of the file, repeated so many times in both directions.
        Exchange: how parts of vectors reach the other ranks: "ring" or "allgather".
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
