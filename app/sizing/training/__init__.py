"""Training and fine-tuning: candidate layouts, memory per device, step time, run duration and cost, and the search.

Memory. A device needs the larger of two peaks: the end of the forward pass (every activation is kept and the loss is
computed) or the optimizer step (activations are freed and gradients are complete). Bytes per trained parameter
follow from the precision and the optimizer. ZeRO shards optimizer states from stage 1, gradients from stage 2 and
weights from stage 3; stage 3 gathers a layer and the largest block ahead of use. Experts are sharded over their own
data-parallel group. LoRA and QLoRA keep a frozen base model. Activations per token and layer follow from the blocks,
from fused or eager kernels, and from activation checkpointing. The first pipeline stage keeps the most
micro-batches. Fitted terms come on top: factors for activations, for a recomputed layer and for an unfused loss; the
context; communication buffers; and the memory that the allocator reserves beyond the allocated bytes.

Time. A micro-batch takes time for matrices, experts, attention, bytes moved and kernel launches. A step consists of
its micro-batches, the communication that they do not hide, the pipeline bubble, the gradient exchange, the optimizer
and a fixed part. Wall time adds validation, experiments, checkpoint stalls and the work that interruptions destroy.
Each matrix is multiplied once in the forward pass and twice in the backward pass (once if it is frozen), and once
more if it is recomputed. Attention is causal; its backward pass takes 2.5 times its forward pass. Bytes moved cover
norms, rotary embeddings, gates, residuals, FP8 and FP4 conversions, the loss, and the dequantization of QLoRA. These
bytes dominate in small layers and short batches. Models that process samples (such as images) take hypot(matrices,
bytes moved), with coefficients of their own.

Communication. Each transfer takes time at the rate of its links, plus messages, inside a scale-up domain or across
the network. Tensor parallelism uses two all-reduces per layer and pass. Context parallelism passes keys and values
around a ring. Expert parallelism uses an all-to-all in each direction. ZeRO-3 uses two all-gathers and one
reduce-scatter per micro-batch. All other layouts exchange gradients and weights once per step, on rings that use all
network cards of a machine. If a computation of c seconds overlaps a transfer of x seconds, (c^4 + x^4)^(1/4) - c
seconds remain visible. The wait for the slowest machine grows with every doubling of the number of machines.

Search. The search sizes each layout at the smallest data-parallel degree that fits memory and meets the deadline.
Inference-class hardware trains within one machine. Spot interruptions add to failures. The scaling curve shows the
fastest layout at each size; its knee is the last size increase that still returned most of the added capacity. The
largest model, sequence or micro-batch that fits is found by bisection.
"""
