"""What attention layers cache per token, read from the cache, and compute."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Layers with the same kind of attention.

    `kv_elements` are cached per token and layer: K and V of all heads, or one MLA latent. `window_tokens` limits the
    tokens that are cached and read (None: no limit). `read_tokens` limits the cached tokens that are read (sparse
    attention). `prefill_macs` and `decode_macs` are multiply-adds per cached token and layer; MLA decodes in its
    absorbed form, with more multiply-adds on less data. Sparse layers scan `index_elements` of every cached token
    and spend `index_macs` on it. Layers that only attend to an encoder's output (`crosses`) cache nothing for a text
    token.
    """

    layers: int
    kv_elements: float
    kv_heads: int
    prefill_macs: float
    decode_macs: float
    window_tokens: float | None = None
    read_tokens: float | None = None
    index_elements: float = 0.0
    index_macs: float = 0.0
    crosses: bool = False

    @property
    def is_latent(self) -> bool:
        """Whether the layers cache one latent for all heads (MLA) and decode in the absorbed form.

        Check:
            >>> [g.is_latent for g in (registered("deepseek-ai/DeepSeek-R1").attention[0], LLAMA_8B.attention[0])]
            [True, False]
        """
        return self.decode_macs > self.prefill_macs

    def cached_elements(self, context_tokens: float) -> float:
        """Elements that one layer caches at a context length, including the keys of an indexer.

        Limits: a layer that only attends to an encoder caches nothing of the text.
        Check: Llama-3.1-8B, keys and values of 8 heads of 128, of 10 tokens.
            >>> LLAMA_8B.attention[0].cached_elements(10)
            20480.0
        """
        return 0.0 if self.crosses else (self.kv_elements + self.index_elements) * self.cached_tokens(context_tokens)

    def read_elements(self, context_tokens: float) -> float:
        """Elements that one layer reads for one new token. Sparse layers scan the index of every cached token.

        Check: DeepSeek-V3.2 at 131,072 tokens: 2,048 latents of 576 and the scan of all keys of 128.
            >>> sparse = registered("deepseek-ai/DeepSeek-V3.2").attention[0]
            >>> sparse.read_elements(131_072) == 2048 * 576 + 131_072 * 128
            True
        """
        scanned = self.index_elements * self.cached_tokens(context_tokens)
        return 0.0 if self.crosses else self.kv_elements * self.tokens_read(context_tokens) + scanned

    def cached_tokens(self, context_tokens: float) -> float:
        """Tokens in the cache at a context length, without the rounding of an engine to cache blocks.

        Check: a window of 4,096.
            >>> AttentionGroup(1, 2048.0, 8, 8192.0, 8192.0, window_tokens=4096.0).cached_tokens(10_000)
            4096.0
        """
        return context_tokens if self.window_tokens is None else min(context_tokens, self.window_tokens)

    def tokens_read(self, context_tokens: float) -> float:
        """Cached tokens that one new token reads at a context length."""
        kept = self.cached_tokens(context_tokens)
        return kept if self.read_tokens is None else min(kept, self.read_tokens)

    def mean_tokens_read(self, prompt_tokens: float) -> float:
        """Mean of `tokens_read` over the tokens of a causal prompt: (s + 1) / 2 if there is no limit.

        Tokens before the limit read 1, 2, ... tokens; all later tokens read the limit.

        Limits: a prompt that is read from its first token; the caller subtracts a cached prefix.
        Check: five tokens under a window of two read 1, 2, 2, 2, 2.
            >>> AttentionGroup(1, 2048.0, 8, 8192.0, 8192.0, window_tokens=2.0).mean_tokens_read(5)
            1.8
        """
        limit = min(
            self.window_tokens if self.window_tokens is not None else prompt_tokens,
            self.read_tokens if self.read_tokens is not None else prompt_tokens,
        )
        if prompt_tokens <= limit:
            return (prompt_tokens + 1) / 2
        return limit - limit * (limit - 1) / (2 * prompt_tokens)
