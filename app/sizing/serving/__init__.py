"""Inference serving: candidate plans, memory, step time, behavior under load, capacity, and the search over plans.

Memory: weights come first, then the workspace (the live tensors of the largest step or the logits copies that
sampling holds, whichever is larger), then the runtime and, on several devices, its communication buffers. Each
engine has its own rule for the share that the KV cache gets. vLLM's fraction applies to the whole device, and
current versions subtract CUDA graphs from it. SGLang's fraction covers weights and cache only. TensorRT-LLM's
fraction applies to the memory left after loading, and it reserves cache for whole requests. The other engines use
paged attention: they allocate blocks as a sequence grows, so a running sequence holds half its output on average. KV
heads are split over tensor-parallel ranks and replicated when there are more ranks than heads. Every rank keeps a
copy of a latent (MLA) cache. A plan fits if one sequence of the longest context fits.

Speed: work (FLOPs, bytes and messages of one device) does not depend on any rate. Each time is work divided by the
device's data-sheet rate times an achieved fraction, or a fixed latency. A decode step consists of the matrices, each
sequence's cache reads, collectives and host time, and the launches and collectives of every layer. Of the routed
experts it reads only those that the batch activates. A prefill step consists of the matrices, attention and
collectives of its prompts, and takes at least as long as the host needs to dispatch it. In llama.cpp, chunks of one
prompt pass through the pipeline stages one behind another. Speculative decoding applies only if requested: a step
then verifies drafted tokens in addition to each sequence's next token.

Weights in host memory: llama.cpp, Ollama and KTransformers compute part of a model on the host processors: routed
experts before whole layers where an engine can separate them, and a layer's cache together with the layer. The
accelerators and the host work one after the other. The host reads the weights that a batch needs at its memory
bandwidth or multiplies them, whichever takes longer. For prompts it computes in place or moves the weights over the
PCIe slot, whichever is faster. Offloading competes only for a handful of concurrent requests, on accelerators where
nothing fits without it.

Load (continuous batching): while a sequence gains its o output tokens, each of the other B - 1 sequences finishes
once, and the prompt of its successor is computed. Schedulers that mix prefill and decode compute that prompt in the
same steps as the decodes; the others run it first, in separate steps. For a batch of B:

    tpot(B) = step(B) + (B - 1) / (o - 1) * prompt(B)        rate = B / (ttft + (o - 1) * tpot)

In a steady state there are no bursts. A first token waits for the running step, for what the scheduler plans ahead,
and for the steps of its own prompt. It also waits behind other prompts (head-of-line blocking). That queue follows
the machine-repairman model for a fixed concurrency. For a request rate it follows M/G/1 if a step holds one prompt,
and is shorter if a step holds several.

TTFT is the time from sending a request to its first token. TPOT is the mean time per output token after the first.
The batch is the largest whose TPOT and TTFT meet the limits and whose cache fits. At a request rate the number of
running sequences fluctuates like a Poisson count, so its mean stays below the batch by the percentile's margin.
Waiting times have an exponential tail and include burstiness. Capacity is the highest rate that meets both limits.
Replicas carry the target share of that capacity. Redundancy adds spares, per zone where zones exist. Whole machines
are paid for.

Work of a known volume lasts as long as its engines start and each replica processes its share at the full rate, at
least one batch. With a deadline, the plan takes the fewest machines that finish in time at the requested confidence,
uses all of them, and is ranked by their cost over that time.

Single-pass work (encoders, image models, speech, image generation): a batch takes passes x max(FLOPs, bytes moved)
plus launches. A request waits for the running batch and leaves with the next one. A pass reads the weights that it
multiplies and moves activations at the width of the computation. A decoded token of speech attends to the encoder's
output. Images in a prompt add their tokens to the prompt and the vision tower's FLOPs to its prefill. The prompt of
an encoder-decoder passes through the encoder and is kept as keys and values of the decoder.
"""
