"""How to start engines as prefill and decode pools: the flags of both pools' servers, and the router in front of them.

Flags as read on 2026-11-23: vLLM's docs/features/nixl_connector_usage.md and vllm-project/router's README, SGLang's
docs/advanced_features/pd_disaggregation.md, TensorRT-LLM's examples/disaggregated/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NIXL = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
BOOTSTRAP_PORT = 8998
PREFILL, DECODE = "prefill", "decode"


@dataclass(frozen=True, slots=True)
class PoolServers:
    """Flags and configuration files of each pool's servers, and the command of the router.

    The router finds the pools at $PREFILL_HOST and $DECODE_HOST. It listens on the port where the load generator
    expects a single server.
    """

    flags: Mapping[str, str]
    router: str
    listen_flags: str = ""  # flags that accept connections from other machines
    environment: Mapping[str, str] = field(default_factory=dict)  # environment variables by pool
    config: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


VLLM = PoolServers(
    {PREFILL: NIXL, DECODE: NIXL},
    "vllm-router --policy round_robin --vllm-pd-disaggregation --prefill http://$PREFILL_HOST:8000 "
    "--decode http://$DECODE_HOST:8000 --port 8000",
    environment={
        PREFILL: "VLLM_NIXL_SIDE_CHANNEL_HOST=$PREFILL_HOST",
        DECODE: "VLLM_NIXL_SIDE_CHANNEL_HOST=$DECODE_HOST",
    },
)
SGLANG = PoolServers(
    {
        PREFILL: f"--disaggregation-mode prefill --disaggregation-bootstrap-port {BOOTSTRAP_PORT}",
        DECODE: "--disaggregation-mode decode",
    },
    f"python -m sglang_router.launch_router --pd-disaggregation --prefill http://$PREFILL_HOST:30000 {BOOTSTRAP_PORT} "
    "--decode http://$DECODE_HOST:30000 --port 30000",
    listen_flags="--host 0.0.0.0",
)
TRANSCEIVER: Mapping[str, object] = {"cache_transceiver_config": {"backend": "DEFAULT"}}
TENSORRT_LLM = PoolServers(
    {PREFILL: "", DECODE: ""},
    'printf \'port: 8000\\ncontext_servers: {num_instances: 1, urls: ["%s:8000"]}\\ngeneration_servers: '
    '{num_instances: 1, urls: ["%s:8000"]}\\n\' $PREFILL_HOST $DECODE_HOST > router.yaml && '
    "trtllm-serve disaggregated -c router.yaml",
    listen_flags="--host 0.0.0.0",
    config={PREFILL: {"disable_overlap_scheduler": True, **TRANSCEIVER}, DECODE: TRANSCEIVER},
)
POOL_SERVERS: Mapping[str, PoolServers] = {"vllm": VLLM, "sglang": SGLANG, "tensorrt-llm": TENSORRT_LLM}
