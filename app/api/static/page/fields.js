// What the page asks, by heading. A path is where it stands in the request; "when" names phases or kinds of load.
export const HEADINGS = [
  {"heading": "1. What will you do?", "open": true, "fields": [
    {"path": "workload.phase", "label": "Task", "kind": "radio", "options": [["inference", "Serve a model"], ["fine_tuning", "Fine-tune one"], ["training", "Train one"]]},
    {"path": "workload.model", "label": "Model", "kind": "text", "list": "models", "wide": true, "hint": "A name, such as llama-3.1-70b, or only a size, such as 70b."},
    {"path": "workload.method", "label": "Method", "kind": "choice", "options": ["lora", "qlora", "full"], "when": ["fine_tuning"]}
  ]},
  {"heading": "2. How much?", "open": true, "fields": [
    {"path": "load", "label": "Requests come as", "kind": "choice", "options": [["users", "users, each now and then"], ["peak_requests_per_s", "a rate per second"], ["concurrent_requests", "so many at once, always"], ["samples_per_s", "images, clips or texts per second"], ["offline", "a batch job, as fast as it goes"], ["batch", "one static batch"]], "when": ["inference"]},
    {"path": "workload.traffic.users.count", "label": "Users", "kind": "number", "when": ["users"]},
    {"path": "workload.traffic.users.requests_per_hour_each", "label": "Requests per hour each", "kind": "number", "when": ["users"]},
    {"path": "workload.traffic.peak_requests_per_s", "label": "Requests per second at peak", "kind": "number", "when": ["peak_requests_per_s"]},
    {"path": "workload.traffic.concurrent_requests", "label": "Requests at once", "kind": "number", "when": ["concurrent_requests"]},
    {"path": "workload.traffic.samples_per_s", "label": "Samples per second at peak", "kind": "number", "when": ["samples_per_s"]},
    {"path": "workload.traffic.batch", "label": "Requests in the batch", "kind": "number", "when": ["batch"]},
    {"path": "workload.traffic.volume_requests", "label": "Requests in all", "kind": "number", "when": ["offline"]},
    {"path": "workload.traffic.deadline_hours", "label": "Done within, hours", "kind": "number", "when": ["offline"]},
    {"path": "workload.traffic.input_tokens.mean", "label": "Input tokens", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "offline", "batch"]},
    {"path": "workload.traffic.output_tokens.mean", "label": "Output tokens", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "offline", "batch"]},
    {"path": "workload.training_tokens", "label": "Training tokens", "kind": "number", "when": ["training", "fine_tuning"]},
    {"path": "workload.sequence_length", "label": "Sequence length, tokens", "kind": "number", "when": ["training", "fine_tuning"]},
    {"path": "workload.deadline_days", "label": "Done within, days", "kind": "number", "when": ["training", "fine_tuning"]}
  ]},
  {"heading": "3. What counts?", "open": true, "fields": [
    {"path": "objective", "label": "Look for the best", "kind": "choice", "options": ["cost", "latency", "throughput", "energy", "balanced"]},
    {"path": "constraints.environments", "label": "Where", "kind": "choices", "options": [["cloud", "cloud"], ["on_prem", "own machines"]]}
  ]},
  {"heading": "Limits", "fields": [
    {"path": "workload.slo.ttft_ms", "label": "First token within, ms", "kind": "number", "when": ["inference"]},
    {"path": "workload.slo.tpot_ms", "label": "Each further token within, ms", "kind": "number", "when": ["inference"]},
    {"path": "workload.slo.e2e_ms", "label": "Whole answer within, ms", "kind": "number", "when": ["inference"]},
    {"path": "workload.slo.percentile", "label": "For this percentile of requests", "kind": "number", "hint": "50 to 99.9; without it 95.", "when": ["inference"]},
    {"path": "constraints.max_usd_per_hour", "label": "At most USD per hour", "kind": "number"},
    {"path": "constraints.max_purchase_usd", "label": "At most USD to buy", "kind": "number"},
    {"path": "constraints.max_accelerators", "label": "At most accelerators", "kind": "number"},
    {"path": "constraints.max_power_kw", "label": "At most kW", "kind": "number"}
  ]},
  {"heading": "Traffic shape", "when": ["inference"], "fields": [
    {"path": "workload.traffic.input_tokens.p95", "label": "Input tokens, 95th percentile", "kind": "number"},
    {"path": "workload.traffic.output_tokens.p95", "label": "Output tokens, 95th percentile", "kind": "number"},
    {"path": "workload.traffic.average_requests_per_s", "label": "Average requests per second", "kind": "number", "hint": "Prices tokens at the real load."},
    {"path": "workload.traffic.peak_to_average", "label": "Peak over average of a day", "kind": "number"},
    {"path": "workload.traffic.hourly_factors", "label": "Load of the 24 hours", "kind": "numbers", "wide": true, "hint": "24 numbers with commas between; the largest is the peak."},
    {"path": "workload.traffic.burstiness", "label": "Burstiness", "kind": "number", "hint": "1 is random arrival; more comes in bursts."},
    {"path": "workload.traffic.cached_prefix_fraction", "label": "Share of a prompt found in the cache", "kind": "number", "hint": "0 to 0.99, or 60%."},
    {"path": "workload.traffic.shared_prefix_fraction", "label": "of it shared by all requests", "kind": "number"},
    {"path": "workload.traffic.turn_gap_s", "label": "Seconds between a session's turns", "kind": "number"},
    {"path": "workload.max_context_tokens", "label": "Longest context, tokens", "kind": "number"},
    {"path": "workload.availability.redundancy", "label": "Survives the loss of", "kind": "choice", "options": [["", "nothing"], ["n+1", "one machine"], ["n+2", "two machines"], ["2n", "half of everything"]]},
    {"path": "workload.availability.zones", "label": "Zones", "kind": "number"},
    {"path": "workload.target_utilization", "label": "Planned utilization", "kind": "number"}
  ]},
  {"heading": "Details of the run", "when": ["training", "fine_tuning"], "fields": [
    {"path": "workload.examples", "label": "Examples", "kind": "number", "hint": "In place of training tokens.", "when": ["fine_tuning"]},
    {"path": "workload.epochs", "label": "Epochs", "kind": "number", "when": ["fine_tuning"]},
    {"path": "workload.lora.rank", "label": "Rank of adapters", "kind": "number", "when": ["fine_tuning"]},
    {"path": "workload.global_batch_sequences", "label": "Sequences per step", "kind": "number"},
    {"path": "workload.global_batch_tokens", "label": "Tokens per step", "kind": "number"},
    {"path": "workload.precision", "label": "Precision", "kind": "text", "hint": "bf16, fp16, fp8, fp32, …"},
    {"path": "workload.optimizer", "label": "Optimizer", "kind": "text", "hint": "adamw, adamw-8bit, adafactor, muon, …"},
    {"path": "workload.dataset_gb", "label": "Data set, GB", "kind": "number"},
    {"path": "workload.checkpoint_interval_minutes", "label": "Minutes between checkpoints", "kind": "number"},
    {"path": "workload.experiment_overhead", "label": "Runs beside the final one, share", "kind": "number"}
  ]},
  {"heading": "Where and how to buy", "fields": [
    {"path": "constraints.providers", "label": "Only providers", "kind": "list"},
    {"path": "constraints.regions", "label": "Only regions", "kind": "list", "hint": "eu-*, DE, US, …"},
    {"path": "constraints.pricing_models", "label": "Ways to pay", "kind": "choices", "options": [["on_demand", "on demand"], ["spot", "spot"], ["reserved_1y", "reserved, 1 year"], ["reserved_3y", "reserved, 3 years"], ["committed_1y", "committed, 1 year"], ["committed_3y", "committed, 3 years"], ["capacity_block", "capacity block"], ["owned", "owned"]]},
    {"path": "constraints.commitment", "label": "Bind yourself for", "kind": "choice", "options": [["", "no time"], ["1y", "1 year"], ["3y", "3 years"]]},
    {"path": "constraints.price_kinds", "label": "Prices that count", "kind": "choices", "options": [["provider", "the provider's own"], ["reseller", "a reseller's"], ["quote", "quotes"], ["list", "the maker's list"], ["broker", "brokers'"], ["launch", "launch prices"], ["press", "press estimates"], ["reckoned", "sums of parts"]]},
    {"path": "constraints.max_price_age_days", "label": "Prices at most so many days old", "kind": "number"},
    {"path": "economics.horizon_months", "label": "Months of use", "kind": "number"},
    {"path": "economics.electricity_usd_per_kwh", "label": "USD per kWh", "kind": "number"},
    {"path": "economics.pue", "label": "Power of the building over the machines'", "kind": "number"},
    {"path": "economics.discounts", "label": "Discounts you have", "kind": "shares", "wide": true, "hint": "By accelerator: nvidia-h100-sxm5-80gb 20%, nvidia-b200-sxm-180gb 10%."},
    {"path": "label", "label": "Label", "kind": "text"},
    {"path": "reference", "label": "Your reference", "kind": "text"},
    {"path": "cost_centre", "label": "Cost centre", "kind": "text"}
  ]},
  {"heading": "Hardware and software in or out", "fields": [
    {"path": "constraints.accelerators", "label": "Only accelerators", "kind": "list", "hint": "h100, *mi300*, l4, …"},
    {"path": "constraints.exclude_accelerators", "label": "Never accelerators", "kind": "list"},
    {"path": "constraints.vendors", "label": "Only vendors", "kind": "list", "hint": "nvidia, amd, intel, apple, …"},
    {"path": "constraints.segments", "label": "Kinds of hardware", "kind": "choices", "options": ["datacenter", "workstation", "consumer", "edge", "cpu"]},
    {"path": "constraints.engines", "label": "Only engines or frameworks", "kind": "list", "hint": "vllm, sglang, megatron, …"},
    {"path": "constraints.weight_formats", "label": "Formats of weights", "kind": "list", "hint": "bf16, fp8, int4-awq, …"},
    {"path": "constraints.kv_formats", "label": "Formats of the KV cache", "kind": "list", "when": ["inference"]}
  ]},
  {"heading": "Your own model", "fields": [
    {"path": "workload.model.huggingface_config", "label": "Its config.json, in place of a name", "kind": "json", "wide": true},
    {"path": "workload.sample.width", "label": "Width of a sample, pixels", "kind": "number"},
    {"path": "workload.sample.height", "label": "Height, pixels", "kind": "number"},
    {"path": "workload.sample.audio_s", "label": "Audio, seconds", "kind": "number"},
    {"path": "workload.sample.steps", "label": "Steps", "kind": "number"}
  ]},
  {"heading": "Confidence and the answer", "fields": [
    {"path": "constraints.confidence", "label": "Certain with", "kind": "number", "hint": "0.5 to 0.95, or 90%; without it 0.8."},
    {"path": "limit", "label": "How many to rank", "kind": "number"},
    {"path": "as_of", "label": "Prices as of", "kind": "text", "hint": "A day, 2026-11-20; without it today."},
    {"path": "assumptions", "label": "Other assumptions", "kind": "json", "wide": true, "hint": "By name, as GET /catalog/assumptions lists them."},
    {"path": "more", "label": "Anything else of a request", "kind": "json", "wide": true, "hint": "Members of a request that have no field here, as the API takes them: classes, companions, a trace."}
  ]}
];
