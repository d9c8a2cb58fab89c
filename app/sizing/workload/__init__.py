"""Workloads for serving, fine-tuning and training: one value per workload, in base units, built from a request and
defaults.
"""

from app.sizing.workload.inference import (
    HOURS,
    REDUNDANCIES,
    Arrivals,
    FailureDomain,
    InferenceWorkload,
    PrefixHits,
    PromptImages,
    Redundancy,
    Router,
    Shares,
    TrafficClass,
    arrivals_from_users,
    build_inference_workload,
    build_mixed_workload,
    derive_peak_per_s,
    draw_population,
    group_populations,
    normalize_hours,
    smooth_day,
    with_class_limit,
)
from app.sizing.workload.lengths import MAX_P95_TO_MEAN, Lengths, adapted_matrices, resize_samples, z_score
from app.sizing.workload.limits import RELAXED_LIMITS, Limits, Load, Slo
from app.sizing.workload.recorded import build_recorded_workload
from app.sizing.workload.trace import Trace
from app.sizing.workload.training import Amount, GlobalBatch, Method, TrainingWorkload, build_training_workload
