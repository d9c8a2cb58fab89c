"""What a training recipe says: the words it may use, and the bytes that follow from each word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from app.sizing.hardware.engines.record import Release


@dataclass(frozen=True, slots=True)
class Loss:
    """How a loss is computed: bytes of a logit that are held at its peak, and of a logit in the chunk at work."""

    name: str
    bytes_per_logit: float
    chunk_bytes_per_logit: float
    words: str


# Traced with PyTorch 2.15 and 2.13: log-softmax, its gradient and the nll gradient are 12 bytes in 32 bit.
LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        x.name: x
        for x in (
            Loss("shifted", 22.0, 0.0, "logits, a shifted copy and their gradients are all held"),
            Loss("held", 14.0, 0.0, "the loop holds the 16-bit logits beside the loss in 32 bit"),
            Loss("upcast", 12.0, 0.0, "logits are widened to 32 bit and let go"),
            Loss("narrow", 6.0, 0.0, "the loss is taken in 16 bit, nothing is widened"),
            Loss("in_place", 6.0, 0.0, "logits are widened once, and their gradient overwrites them"),
            Loss("chunked_eager", 6.0, 4.0, "logits are formed whole, the loss a chunk at a time and its softmax kept"),
            Loss("narrow_chunked", 4.0, 4.0, "logits are formed whole, the loss in 16 bit a chunk at a time"),
            Loss("compiled", 4.0, 0.0, "the loss is one kernel and stores nothing widened"),
            Loss("chunked", 2.0, 2.0, "logits are formed whole in 16 bit, a compiled loss a chunk at a time"),
            Loss("fused", 0.0, 12.0, "head and loss are one kernel, a chunk at a time"),
        )
    }
)

# Words of each field that is a choice, and what each means.
KERNELS: Mapping[str, str] = MappingProxyType(
    {
        "eager": "every operation stores its output",
        "fused": "norm and gate are one kernel each",
        "compiled": "a compiler fuses what lies between matrices",
    }
)
WEIGHTS: Mapping[str, str] = MappingProxyType(
    {
        "master": "16-bit weights, their 32-bit master copy in the optimizer",
        "sharded": "32-bit weights, gathered in 16 bit where they are sharded and computed under autocast where not",
        "autocast": "32-bit weights computed under autocast, gathered in 32 bit where they are sharded",
        "16bit": "16-bit weights and states, nothing in 32",
    }
)
GRADIENTS: Mapping[str, str] = MappingProxyType(
    {
        "as_weights": "as wide as the weights they are of",
        "32bit": "32 bit whatever the weights are",
        "copied": "as wide as the weights, and while they are stepped a 32-bit copy of the shard",
    }
)
RECOMPUTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "none": "nothing is recomputed",
        "operators": "outputs of attention and of every second matrix are kept",
        "attention": "attention's own products are recomputed",
        "every_second_layer": "every second layer is recomputed whole",
        "full": "every layer is recomputed whole",
    }
)
OPTIMIZER_IMPLEMENTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "fused": "one kernel, no copies",
        "foreach": "one copy of what it steps",
        "paged": "states move to the host when memory is short",
        "in_backward": "each gradient is stepped and freed as it forms",
        "offloaded": "states and step on the host",
    }
)
ADAPTER_PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "32-bit adapters, their inputs widened",
        "autocast": "32-bit adapters under autocast",
        "16bit": "16-bit adapters",
    }
)
PACKINGS: Mapping[str, str] = MappingProxyType(
    {"packed": "sequences are filled", "padded": "to the longest of the batch"}
)

# Fields of a recipe that are words, and their vocabularies. Columns hold a word's place in its vocabulary.
VOCABULARIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
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
)


# PyTorch's DistributedDataParallel keeps every bucket beside the gradients (gradient_as_bucket_view is off).
EVERY_BUCKET_BYTES = 1e15


@dataclass(frozen=True, slots=True)
class TrainingRecipe:
    """What a framework does, from one of its versions on, where nobody says otherwise.

    `selective` is what selective recomputation means there; "none" where it has no such thing. `sources` say of
    fields where they were read.
    """

    framework: str
    since: Release | None = None  # first version; None: as far back as is known
    version: str = ""  # at which it was read
    methods: tuple[str, ...] = ()  # ways of training that it is for; none: all
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
    offloads_checkpoints: bool = False  # what recomputation starts from lies on the host
    loss_chunks: int = 8  # of a micro-batch, where its loss is taken in chunks
    gathered_units: int = 2  # layers that lie gathered at once where weights are sharded
    gathers_to_recompute: bool = False  # sharded weights: apart for a layer's recomputation and its backward
    bucket_bytes: float = 0.0  # gradients that lie in a bucket beside themselves on their way to other replicas
    sent_copies: float = 3.0  # of tokens on their way to experts and back
    live_params: float = 0.0  # weights that may lie gathered at once where they are let go of by number
    source: str = ""
    as_of: str = ""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Framework, and the version at which it was read.

        Check:
            >>> TrainingRecipe("torchtune", (0, 4), "0.6").name, TrainingRecipe("nanotron").name
            ('torchtune 0.6', 'nanotron')
        """
        return f"{self.framework} {self.version}".strip()

    @property
    def was_read(self) -> bool:
        """Whether somebody read it in the framework's own source; the rest is recalled."""
        return bool(self.source) and not self.source.startswith("recall")

    @property
    def key(self) -> tuple[str, Release | None, tuple[str, ...]]:
        """What tells it from the others, whatever a deployment says of its fields."""
        return self.framework, self.since, self.methods

    def suits(self, release: Release | None, method: str | None) -> bool:
        """Whether it is for a version, today's where none is said, and a way of training."""
        old = release is not None and self.since is not None and release < self.since
        return not old and (not self.methods or method in self.methods)
