"""The physics of training: layouts, what they hold, how long a step takes, what a run comes to, and the search.

Memory, per device, at whichever of two moments needs more: the end of forward (every activation held, the loss formed)
or the optimizer's step (activations gone, gradients whole). States per trained parameter follow from precision and
optimizer; ZeRO shares optimizer states from stage 1, gradients from 2, weights from 3, which gathers a layer and the
largest block ahead; experts are shared by their own group; LoRA and QLoRA keep a frozen base. Activations per token and
layer follow from the blocks, from fused or eager kernels, and from what is recomputed; the first pipeline stage holds
the most micro-batches. Then what is fitted: a factor of activations, of a recomputed layer, of an unfused loss;
context, communication buffers, and what the allocator keeps beyond what it allocated.

Time: a micro-batch is matrices, experts, attention, bytes moved and launches; a step is its micro-batches, what they do
not hide of their traffic, the pipeline bubble, gradients, optimizer and a fixed part; wall time adds validation,
experiments, checkpoint stalls, and what interruptions take back. Matrices are multiplied once forward and twice
backward (once where frozen), once more where recomputed; attention is causal, 2.5 times its forward in backward. Bytes
moved are norms, rotations, gates and residuals, the conversions of FP8 and FP4, the loss, and QLoRA's widening: that is
what makes small layers and short batches slow. Samples (images) take hypot(matrices, bytes moved), with coefficients of
their own.

Traffic is seconds at the links' own rates and messages, inside a scale-up domain or across the network: tensor
parallelism two all-reduces per layer and pass, context parallelism keys and values passed round a ring, experts an
all-to-all there and back, ZeRO-3 two all-gathers and a reduce-scatter per micro-batch, the rest gradients and weights
once per step, on rings that use all network cards of a machine. What overlaps c of computation with x of traffic leaves
(c^4 + x^4)^(1/4) - c of it. Waiting for the slowest machine grows with every doubling of machines.

Each layout is taken at the smallest data-parallel degree that fits memory and deadline; inference-class hardware trains
within one machine. Spot machines are taken back on top of failures. Scaling draws the fastest layout at every size; its
knee is the last step up that returned most of what it added. The largest model, sequence or micro-batch is bisected.
"""
