"""Training recipe: the vocabulary of its fields, and the bytes that follow from each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.sizing.hardware.engines.record import Release


@dataclass(frozen=True, slots=True)
class Loss:
    """Memory of a loss: bytes held per logit at its peak, and bytes per logit of the chunk in progress."""

    name: str
    bytes_per_logit: float
    chunk_bytes_per_logit: float
    description: str
    chunk_logits: float = 0.0  # most logits of a chunk, if the loss limits them; chunks are then multiples of four


# Traced with PyTorch 2.15 and 2.13: log-softmax, its gradient and the nll gradient are 12 bytes in 32 bit.
LOSSES: Mapping[str, Loss] = {
    x.name: x
    for x in (
        Loss("shifted", 22.0, 0.0, "logits, a shifted copy and the gradients of both are held at once"),
        Loss("held", 14.0, 0.0, "the training loop holds the 16-bit logits during the 32-bit loss"),
        Loss("upcast", 12.0, 0.0, "logits are converted to 32 bits, then released"),
        Loss("narrow", 6.0, 0.0, "the loss is computed in 16 bits without conversion"),
        Loss("in_place", 6.0, 0.0, "logits are converted once, and their gradient overwrites them"),
        Loss("chunked_eager", 6.0, 4.0, "all logits are held; the loss works in chunks and keeps its softmax"),
        Loss("narrow_chunked", 4.0, 4.0, "all logits are held; the loss is computed in 16-bit chunks"),
        Loss("compiled", 4.0, 0.0, "the loss is one kernel that stores no 32-bit copy"),
        Loss("chunked", 2.0, 2.0, "all 16-bit logits are held; a compiled loss works in chunks"),
        Loss("fused", 0.0, 12.0, "output head and loss are one kernel that works in chunks"),
        Loss("fused_limited", 0.0, 4.0, "output head and loss are compiled for chunks of up to 2^30 logits", 2.0**30),
    )
}

# Words of each vocabulary field and their meaning.
KERNELS: Mapping[str, str] = {
    "eager": "every operation stores its output",
    "fused": "normalization and gate are one kernel each",
    "compiled": "a compiler fuses the operations between matrix multiplications",
}
WEIGHTS: Mapping[str, str] = {
    "master": "16-bit weights with a 32-bit master copy in the optimizer",
    "sharded": "32-bit weights, gathered in 16 bits if sharded, computed under autocast otherwise",
    "autocast": "32-bit weights computed under autocast, gathered in 32 bits if sharded",
    "16bit": "16-bit weights and optimizer states, nothing in 32 bits",
}
GRADIENTS: Mapping[str, str] = {
    "as_weights": "same width as the weights",
    "32bit": "32 bits regardless of the weights",
    "copied": "same width as the weights, plus a 32-bit copy of the shard during the optimizer step",
}
RECOMPUTATIONS: Mapping[str, str] = {
    "none": "nothing is recomputed",
    "operators": "outputs of attention and of every second matrix multiplication are kept",
    "attention": "the attention products are recomputed",
    "every_second_layer": "every second layer is fully recomputed",
    "full": "every layer is fully recomputed",
}
OPTIMIZER_IMPLEMENTATIONS: Mapping[str, str] = {
    "fused": "one kernel, no copies",
    "foreach": "one copy of the updated tensors",
    "paged": "optimizer states move to the host when device memory is short",
    "in_backward": "each gradient is applied and freed as soon as it is computed",
    "paged_in_backward": "both: states can move to the host, and gradients are freed at once",
    "offloaded": "optimizer states and step on the host",
}
ADAPTER_PRECISIONS: Mapping[str, str] = {
    "fp32": "32-bit adapters with inputs converted to 32 bits",
    "autocast": "32-bit adapters under autocast",
    "16bit": "16-bit adapters",
}
PACKINGS: Mapping[str, str] = {
    "packed": "sequences are packed to full length",
    "padded": "padded to the longest of the batch",
}

# Vocabulary of each recipe field that is a word. Columns hold the index of a word.
VOCABULARIES: Mapping[str, tuple[str, ...]] = {
    "loss": tuple(LOSSES),
    "kernels": tuple(KERNELS),
    "weights": tuple(WEIGHTS),
    "gradients": tuple(GRADIENTS),
    "selective": tuple(RECOMPUTATIONS),
    "recomputation": tuple(RECOMPUTATIONS),
    "optimizer_implementation": tuple(OPTIMIZER_IMPLEMENTATIONS),
    "adapter_precision": tuple(ADAPTER_PRECISIONS),
    "packing": tuple(PACKINGS),
}


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """Default behavior of a framework from one of its versions on.

    `selective` is what selective recomputation recomputes; "none" if the framework has no such option. `sources`
    says where individual fields were read.
    """

    framework: str
    since: Release | None = None  # first version; None: the earliest known
    version: str = ""  # version that was read
    methods: tuple[str, ...] = ()  # training methods; empty: all
    loss: str = "upcast"
    kernels: str = "eager"
    weights: str = "master"
    gradients: str = "as_weights"
    selective: str = "operators"
    recomputation: str = "none"
    optimizer_implementation: str = "foreach"
    adapter_precision: str = "fp32"
    adapter_dropout: bool = False
    kbit_widening: bool = False
    packing: str = "packed"
    offloads_checkpoints: bool = False  # activation checkpoints are on the host
    loss_chunks: int = 8  # chunks of a micro-batch, if the loss works in chunks
    gathered_units: int = 2  # layers gathered at once if weights are sharded
    gathers_to_recompute: bool = False  # sharded weights are gathered again for recomputation, apart from backward
    keeps_exchanges: bool = False  # lists of saved operators include the all-to-alls of experts
    keeps_gathered: bool = False  # in a pipeline, sharded weights and gradients stay whole over all micro-batches
    bucket_bytes: float = 0.0  # gradient bytes in communication buckets, in addition to the gradients
    sent_copies: float = 3.0  # copies of tokens in transit to and from experts
    live_params: float = 0.0  # gathered parameters that may be held at once, if the framework limits their number
    source: str = ""
    as_of: str = ""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    note: str = ""

    @property
    def name(self) -> str:
        """Framework and the version at which the recipe was read.

        Check:
            >>> TrainingRecipe("torchtune", (0, 4), "0.6").name, TrainingRecipe("nanotron").name
            ('torchtune 0.6', 'nanotron')
        """
        return f"{self.framework} {self.version}".strip()

    @property
    def is_from_source(self) -> bool:
        """Whether the recipe was read in the framework's source code; otherwise it is recalled."""
        return bool(self.source) and not self.source.startswith("recall")

    @property
    def key(self) -> tuple[str, Release | None, tuple[str, ...]]:
        """Identity of the recipe, independent of fields that a deployment overrides."""
        return self.framework, self.since, self.methods

    def applies_to(self, release: Release | None, method: str | None) -> bool:
        """Whether the recipe applies to a version (the current one if None) and a training method."""
        old = release is not None and self.since is not None and release < self.since
        return not old and (not self.methods or method in self.methods)
