"""The physics of serving: plans, what they hold, how long a step takes, what they carry under load, and the search.

Memory: weights first, then the workspace (the live tensors of the largest step or the copies of its logits that
sampling holds, whichever is more), then the runtime and, between devices, its buffers. What the cache gets of the rest
is each engine's own rule: vLLM's fraction is of the device and today takes graphs out of it; SGLang's is of weights and
cache alone; TensorRT-LLM's is of what loading left, with room reserved for whole requests, where the others give blocks
as a sequence grows, so that it holds half its output in the mean. KV heads split over tensor-parallel ranks and are
copied beyond their number; a latent cache is copied to every rank. A plan fits when one sequence of the longest context
does.

Speed: work (FLOPs, bytes and messages of one device) knows no speed; each term is work over the device's own rate times
an achieved share, or a time. A decode step is its matrices, of whose routed experts only those that the batch touches
are read, then each sequence's cache, collectives and host time, then launches and collectives of every layer. A prefill
is the matrices and attention of its prompts and their collectives, never below the host's dispatch; chunks of one
prompt pass llama.cpp's stages one behind another. Speculative decoding, only where it is asked for, verifies drafted
tokens beside each sequence's next.

Weights in the host's memory: llama.cpp, Ollama and KTransformers compute part of a model there, routed experts before
whole layers where an engine tells them apart, a layer's cache with it. Both parts follow one another: the host reads
what a batch touches at its memory's rate, or multiplies, whichever takes longer; prompts are computed there or their
weights moved over the slot. It competes for a handful of requests, where nothing of an accelerator fits without.

Load: while a sequence gains its o tokens each of the others is replaced once and its prompt computed, beside the
decodes of a step where the scheduler mixes them, in steps of their own and first where it does not:

    tpot(B) = step(B) + (B - 1) / (o - 1) * prompt(B)        rate = B / (ttft + (o - 1) * tpot)

A steady state has no burst: its first tokens wait for the running step, what the scheduler plans ahead, the own
prompt's steps, and prompts that queue as a machine repairman's clients do, or of a rate as in M/G/1 where a step holds
one prompt and by less where it holds several.

TTFT counts from sending a request to its first token; TPOT is the mean time of a token after the first. The batch is
the largest whose TPOT and TTFT meet the limits and whose cache fits. For a request rate the occupancy fluctuates like a
Poisson count, so the mean is held below the batch by the percentile's margin; waits have an exponential tail,
burstiness included. Capacity is the highest rate that meets both; replicas carry the target share of
it; spares follow from redundancy, by zone where there are zones; whole machines are paid for.

Work of a known volume lasts as long as its engines start and each replica does its share, at least one batch, at its
full rate. By a deadline it takes the fewest machines that are done with the confidence asked, all of them filled, and
is ranked by what they cost for so long.

Single-pass work (encoders, images, speech, pictures): a batch takes passes x max(FLOPs, bytes moved) plus launches; a
request waits for the running batch and leaves with the next. A pass reads the weights it multiplies and moves
activations at the width computed in; a decoded token of speech looks back at its encoder's output. Images of a prompt
add their tokens to it and the tower's FLOPs to its prefill; an encoder-decoder's prompt goes through the encoder and is
kept as keys and values of the decoder.
"""
