"""The tensors of a model: every learnable tensor with its shape, and how often it is multiplied.

All counts follow from this list: parameters by part, active parameters, FLOPs, bytes in every format with its
scales, and adapters. Shapes are (outputs, inputs), as a linear layer stores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

ONCE = (-1,)  # layer index of tensors outside the layers


class Part(StrEnum):
    """Part of a model to which a tensor belongs; the parts sum to the total."""

    EMBEDDING = "embedding"
    HEAD = "head"
    ATTENTION = "attention"
    MLP = "mlp"
    ROUTED_EXPERTS = "routed_experts"
    SHARED_EXPERTS = "shared_experts"
    ROUTER = "router"
    RECURRENT = "recurrent"
    NORMS = "norms"
    OTHER = "other"
    ENCODER_TOWER = "encoder_tower"


class Per(StrEnum):
    """Unit for which a matrix is multiplied: each token, each position of an encoder, each image token, or never."""

    TOKEN = "token"
    SOURCE = "source"
    IMAGE_TOKEN = "image_token"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Tensor:
    """Tensors of the same shape: `copies` in each of `layers`, of which `used` are multiplied at a time.

    A tied head is multiplied but not stored (copies 0, used 1). A vector has one input.
    """

    role: str
    part: Part
    outputs: int
    inputs: int
    layers: tuple[int, ...] = ONCE
    copies: int = 1
    used: int = 1
    quantized: bool = False
    per: Per = Per.NEVER

    @property
    def size(self) -> int:
        return self.outputs * self.inputs

    @property
    def count(self) -> int:
        return self.copies * len(self.layers)

    @property
    def params(self) -> int:
        return self.size * self.count

    @property
    def inactive_params(self) -> int:
        """Elements of the experts that a token is not routed to."""
        return self.size * max(0, self.copies - self.used) * len(self.layers)

    @property
    def multiplied_elements(self) -> int:
        """Elements multiplied for one unit of `per`."""
        return 0 if self.per is Per.NEVER else self.size * self.used * len(self.layers)


@dataclass(frozen=True, slots=True)
class BlockKind:
    """Properties of a block that its sizes do not show.

    With one norm, attention and MLP run in parallel on its output. `layer_norm` says that every engine runs the norm
    as one kernel. `writes_gelu` says that the model's code computes GELU operation by operation.
    """

    norms: int = 2
    layer_norm: bool = False
    writes_gelu: bool = False


DEFAULT_BLOCK = BlockKind()


@dataclass(slots=True)
class Inventory:
    """Collects the tensors of a model. `layers` are layer indices, because some formats vary by depth."""

    tensors: list[Tensor] = field(default_factory=list)
    state_bytes: float = 0.0  # constant state of one sequence in all layers
    step_state_bytes: float = 0.0  # states of one token of a step in all layers
    recurrent_flops: float = 0.0  # FLOPs of one token beyond the matrices

    def add_tensor(self, tensor: Tensor) -> None:
        if tensor.layers and tensor.size and (tensor.copies or tensor.used):
            self.tensors.append(tensor)

    def add_linear(
        self,
        role: str,
        part: Part,
        inputs: int,
        outputs: int,
        layers: tuple[int, ...],
        *,
        bias: bool | int = False,
        copies: int = 1,
        used: int | None = None,
        quantized: bool = True,
        per: Per = Per.TOKEN,
    ) -> None:
        """Add a matrix and its bias. `bias` says whether there is one, or gives its length."""
        used = copies if used is None else used
        self.add_tensor(Tensor(role, part, outputs, inputs, layers, copies, used, quantized, per))
        length = outputs if bias is True else int(bias)
        self.add_tensor(Tensor(f"{role}.bias", part, length, 1, layers, copies, used))

    def add_vector(self, role: str, part: Part, size: int, layers: tuple[int, ...] = ONCE) -> None:
        """Add learnable elements that no token multiplies: norms, sinks, convolutions, scalars."""
        self.add_tensor(Tensor(role, part, size, 1, layers))

    def add_table(self, role: str, rows: int, width: int, part: Part = Part.EMBEDDING) -> None:
        """Add a look-up table."""
        self.add_tensor(Tensor(role, part, rows, width, ONCE))

    def add_head(self, inputs: int, outputs: int, *, tied: bool, bias: bool = False) -> None:
        """Add the output head, which every sampled token multiplies. A tied head takes no storage."""
        self.add_tensor(Tensor("lm_head", Part.HEAD, outputs, inputs, ONCE, 0 if tied else 1, 1, False, Per.TOKEN))
        if bias:
            self.add_vector("lm_head.bias", Part.HEAD, outputs)
