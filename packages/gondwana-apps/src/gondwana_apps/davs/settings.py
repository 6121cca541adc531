"""The settings of a run: a TOML file of flat keys, which have the names of the original program.

A `Settings` is complete and consistent: it comes from `resolve`, which starts with a preset and refuses, with one line,
settings that could not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gondwana.errors import UsageError
from gondwana_apps import settings_files
from gondwana_apps.davs.presets import PRESETS
from gondwana_apps.settings_files import one_line

Positive = Annotated[float, Meta(gt=0.0, le=1e12)]
Amount = Annotated[float, Meta(ge=0.0, le=1e12)]
Number = Annotated[float, Meta(ge=-1e12, le=1e12)]
Factor = Annotated[float, Meta(gt=0.0, lt=1.0)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Widths = Annotated[tuple[Positive, ...], Meta(min_length=1, max_length=64)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings that decide a result. Local.

    Squared distances are in units of sigma, the width of a cluster at its position.

    Attributes:
        DistanceMatrixFile: file of the points (a historic name); "": the points of the preset are generated.
        InputFileType: 0: raw peaks; 1: an earlier cluster file.
        SelectedInputLabel: lines with this label are read; -L: all but those with label L.
        Replicate: copies of each point.
        ClusterFile: stem of the output files; "": no files.
        RestartClusterFile: an earlier cluster file whose centres are the start; "": start from one cluster.
        RestartTemperature: temperature of such a start.
        SigmaMethod: 0: sigma is 1; 1: the parameters; 2: axis 0 is relative to the position; 3: and annealed.
        SigmaVectorParameters: sigma of each axis, at the start for method 3.
        FinalTargetTemperature: temperature at which annealing of the width of axis 0 ends.
        FinalTargetSigma0: width of axis 0 there.
        UseSponge: whether there is a sponge from the start.
        SpongePOption: 1: the sponge's P is SpongePWeight over the number of clusters; 0: the points in it over all.
        SpongePWeight: see SpongePOption.
        SpongeFactor1: distance of the sponge at SpongeTemperature1 and above.
        SpongeFactor2: distance of the sponge at SpongeTemperature2 and below.
        SpongeTemperature1: temperature below which there is a sponge.
        SpongeTemperature2: see SpongeFactor2; negative: the distance stays constant.
        CreateSpongeScaledSquaredWidth: mean of d2 at or below which a sponge is added; -1: never for that.
        Tminimum: temperature at which splitting ends; -R: the first temperature over R.
        InitialCoolingFactor1: factor of the temperature, before the first split and at the end, above the switch.
        InitialCoolingFactor2: the same below the switch.
        FineCoolingFactor1: in between, above the switch.
        FineCoolingFactor2: in between, below the switch.
        CoolingTemperatureSwitch: the switch.
        WaitIterations: temperatures between two tests for splits.
        WaitIterationsConverge: the same after clusters were removed.
        IterationAtEnd: limit of temperatures after the last split.
        ConvergenceLoopLimit: most iterations at one temperature.
        FreezingLimit: the end is reached once the sum of M (1 - M) over C is at most this for every cluster.
        MalphaMaxChange: mean change of memberships below which they have converged.
        MalphaMaxChange1: the same in the final loop.
        MaxNumberSplitClusters: most splits at one time.
        TooSmallToSplit: clusters of fewer points do not split.
        MinimumScaledWidthSquaredToSplit: clusters with a smaller mean of d2 do not split.
        MinimumCountForClusterCk: clusters of fewer points are removed, if there is no sponge.
        MinimumCountForClusterCkWithSponge: the same, if there is one.
        MinimuCountForClusterPoints: the same for points of which the cluster has the largest membership; -1: never.
        CountForClusterCkToBeZero: clusters of fewer points keep their position.
        TemperatureForClosenessTest: temperature below which clusters closer than the next value are merged.
        ScaledSquaredDistanceAtClosenessTest: squared distance of two centres.
        ExpArgumentCut1: exponents that are smaller than the largest by this are left out.
        ExpArgumentCut2: the same for lists of clusters, which are made once at each temperature.
        TargetNcentPerPoint: number of clusters in the list of a point.
        MaxNcentTotal: number of clusters at which splitting ends; 0: no limit.
        ClusterLimitForDistribution: number of clusters from which they are divided over the ranks; -1: never for that.
        TemperatureLimitForDistribution: temperature from which they are divided; -1: never for that.
        NumberNearbyClusters: number of nearest other clusters in the status table.
        NearbySpongePointLimit: radius of a cluster at the end; -1: the distance of the sponge, or 1 without one.
        HistogramOccupationMax: bins of the histogram of sizes.
        HistogramDistancesMax: bins of the histogram of squared distances between centres.
        CheckpointFile: common name of checkpoints, such as "davs.bp"; "": no checkpoints.
        CheckpointSteps: temperatures between two checkpoints.
        Restart: whether to continue from the last checkpoint.
    """

    DistanceMatrixFile: str = ""
    InputFileType: Literal[0, 1] = 0
    SelectedInputLabel: int = 6
    Replicate: Annotated[int, Meta(ge=1, le=1000)] = 1
    ClusterFile: str = ""
    RestartClusterFile: str = ""
    RestartTemperature: Number = -1.0
    SigmaMethod: Literal[0, 1, 2, 3] = 3
    SigmaVectorParameters: Widths = (5.98e-4, 2.35)
    FinalTargetTemperature: Positive = 12.0
    FinalTargetSigma0: Amount = 5.98e-6
    UseSponge: bool = False
    SpongePOption: Literal[0, 1] = 1
    SpongePWeight: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.1
    SpongeFactor1: Positive = 12.0
    SpongeFactor2: Number = 3.0
    SpongeTemperature1: Number = 9.0
    SpongeTemperature2: Number = 3.0
    CreateSpongeScaledSquaredWidth: Number = 10.0
    Tminimum: Number = 0.1
    InitialCoolingFactor1: Factor = 0.9875
    InitialCoolingFactor2: Factor = 0.99375
    FineCoolingFactor1: Factor = 0.9975
    FineCoolingFactor2: Factor = 0.999375
    CoolingTemperatureSwitch: Amount = 12.0
    WaitIterations: Count = 1
    WaitIterationsConverge: Count = 4
    IterationAtEnd: Count = 400
    ConvergenceLoopLimit: Annotated[int, Meta(ge=2, le=10**6)] = 20
    FreezingLimit: Amount = 0.002
    MalphaMaxChange: Amount = 0.005
    MalphaMaxChange1: Amount = 0.005
    MaxNumberSplitClusters: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 256
    TooSmallToSplit: Amount = 4.0
    MinimumScaledWidthSquaredToSplit: Amount = 1.5
    MinimumCountForClusterCk: Amount = 0.5
    MinimumCountForClusterCkWithSponge: Amount = 1.5
    MinimuCountForClusterPoints: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    CountForClusterCkToBeZero: Amount = 0.001
    TemperatureForClosenessTest: Number = 4.0
    ScaledSquaredDistanceAtClosenessTest: Amount = 0.5
    ExpArgumentCut1: Positive = 20.0
    ExpArgumentCut2: Positive = 40.0
    TargetNcentPerPoint: Annotated[int, Meta(ge=1, le=64)] = 8
    MaxNcentTotal: Count = 200_000
    ClusterLimitForDistribution: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = 256
    TemperatureLimitForDistribution: Number = -1.0
    NumberNearbyClusters: Annotated[int, Meta(ge=0, le=100)] = 5
    NearbySpongePointLimit: Number = -1.0
    HistogramOccupationMax: Annotated[int, Meta(ge=2, le=10**6)] = 202
    HistogramDistancesMax: Annotated[int, Meta(ge=2, le=10**6)] = 200
    CheckpointFile: str = ""
    CheckpointSteps: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 50
    Restart: bool = False

    @property
    def dimension(self) -> int:
        """The number of axes of the points."""
        return len(self.SigmaVectorParameters)

    @property
    def relative(self) -> bool:
        """Whether sigma of axis 0 is relative to the position."""
        return self.SigmaMethod >= 2

    def physics(self) -> dict[str, Any]:
        """Return the settings that decide a result, which a checkpoint and its continuation must share. Local."""
        free = {"ClusterFile", "CheckpointFile", "CheckpointSteps", "Restart"}
        keys: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in keys.items() if key not in free}


_UNUSED = {
    key: reason
    for reason, keys in {
        "memory grows as needed": "MaxIntegerComponents MaxDoubleComponents MaxMPITransportBuffer MaxNcentPerNode "
        "MaxNumberAccumulationsPerNode MaxTransportedClusterStorage maxNcentCreated MaxNcentPerPoint CacheLineSize",
        "lists of clusters are made anew at each temperature": "MagicTemperatures MagicIndex ExpArgumentCut3 "
        "TargetMinimumNcentPerPoint",
        "--json has the times and the result": "TimingFile SummaryFile",
        "it follows from other settings": "ParameterVectorDimension InitialNcent NumberDataPoints InitialSigma0",
        "clusters always have weights": "ContinuousClustering",
        "RestartClusterFile starts from an earlier result": "LCMSmode",
    }.items()
    for key in keys.split()
}
"""Keys of the original program, and the reasons why they have no use here."""


def load(path: str | None, preset: str | None, overrides: Iterable[str] = ()) -> tuple[str, Settings]:
    """Read a settings file and the replacements of its keys. Local.

    Args:
        path: name of a TOML file, or None.
        preset: name of a preset; replaces the key `preset` of the file.
        overrides: texts `KEY=VALUE`, with a value in TOML's notation, or plain text.

    Returns:
        The name of the preset, and the settings.

    Raises:
        UsageError: one line that says which file and key, the given value and the legal ones.

    Example:
        >>> load(None, "tiny", ["Tminimum=0.5"])[1].Tminimum
        0.5
    """
    given = settings_files.read(Settings, path, (*overrides,))
    named = given.values.pop("preset", "charge5")
    name = preset or named
    if not isinstance(name, str) or name not in PRESETS:
        raise UsageError(f"davs: there is no preset {one_line(name)}: legal are {', '.join(PRESETS)}")
    return name, resolve({**PRESETS[name].settings, **given.values}, given.places)


def resolve(keys: Mapping[str, Any], where: Mapping[str, str] | None = None) -> Settings:
    """Complete and validate settings. Local.

    Args:
        keys: values by key; those left out have the defaults.
        where: source of each key, for messages.

    Raises:
        UsageError: one line, as in `load`.
    """
    given = settings_files.Given(dict(keys), dict(where or {}))
    settings = Settings(**settings_files.converted(Settings, given, _UNUSED))
    _check(settings)
    return settings


def _check(s: Settings) -> None:
    """Refuse settings that are legal one by one and impossible together."""

    def fail(text: str) -> None:
        raise UsageError(f"davs: {text}")

    if any(width != width for width in s.SigmaVectorParameters):
        fail("SigmaVectorParameters has a NaN; give finite widths")
    if s.SigmaMethod == 3 and not 0.0 < s.FinalTargetSigma0 <= s.SigmaVectorParameters[0]:
        fail(
            f"FinalTargetSigma0 is {s.FinalTargetSigma0:g}; with SigmaMethod 3 the width of axis 0 goes down from "
            f"{s.SigmaVectorParameters[0]:g} to it: give a positive number that is not larger"
        )
    if 0.0 <= s.SpongeTemperature1 < s.SpongeTemperature2 and s.SpongeFactor2 >= 0.0:
        fail(f"SpongeTemperature1 is {s.SpongeTemperature1:g}, below SpongeTemperature2, {s.SpongeTemperature2:g}")
    if s.SpongeFactor2 > s.SpongeFactor1:
        fail(f"SpongeFactor2 is {s.SpongeFactor2:g}, above SpongeFactor1, {s.SpongeFactor1:g}; give at most that")
    if s.Tminimum == 0.0:
        fail("Tminimum is 0; give a temperature, or -R for the first temperature over R")
    if s.RestartClusterFile and s.RestartTemperature <= 0.0:
        fail(f"RestartClusterFile needs RestartTemperature above 0, not {s.RestartTemperature:g}")
    if s.Restart and not s.CheckpointFile:
        fail('Restart needs a CheckpointFile, such as "davs.bp"')
    for key in ("DistanceMatrixFile", "ClusterFile", "RestartClusterFile", "CheckpointFile"):
        if not getattr(s, key).isprintable():
            fail(f"{key} is {one_line(getattr(s, key))}; give printable text")
