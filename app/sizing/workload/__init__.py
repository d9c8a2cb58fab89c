"""Workloads for serving, fine-tuning and training: one value per workload, in base units, built from a request and
defaults.
"""

from app.sizing.workload.arrivals import Arrivals, arrivals_from_users
from app.sizing.workload.classes import TrafficClass, draw_population, group_populations
from app.sizing.workload.day import HOURS, Shares, derive_peak_per_s, normalize_hours, smooth_day
from app.sizing.workload.images import PromptImages
from app.sizing.workload.inference import PrefixHits, InferenceWorkload, build_inference_workload
from app.sizing.workload.lengths import MAX_P95_TO_MEAN, Lengths, z_score
from app.sizing.workload.limits import Limits, Load, Slo
from app.sizing.workload.mixed import build_mixed_workload, with_class_limit
from app.sizing.workload.recorded import build_recorded_workload
from app.sizing.workload.redundancy import REDUNDANCIES, FailureDomain, Redundancy
from app.sizing.workload.sizes import adapted_matrices, resize_samples
from app.sizing.workload.trace import Trace
from app.sizing.workload.training import Amount, GlobalBatch, Method, TrainingWorkload, build_training_workload

__all__ = [
    "HOURS",
    "REDUNDANCIES",
    "WIDEST_P95_TO_MEAN",
    "Amount",
    "Arrivals",
    "FailureDomain",
    "GlobalBatch",
    "Hits",
    "InferenceWorkload",
    "Lengths",
    "Limits",
    "Load",
    "Method",
    "PromptImages",
    "Redundancy",
    "Shares",
    "Slo",
    "Trace",
    "TrafficClass",
    "TrainingWorkload",
    "adapted_matrices",
    "arrivals_of_users",
    "inference_workload",
    "mixed_workload",
    "peak_of",
    "population_of",
    "populations",
    "recorded_workload",
    "shares_of",
    "sized",
    "smooth_day",
    "training_workload",
    "with_limit",
    "z_score",
]
