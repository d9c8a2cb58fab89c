// Form fields by heading. "path" is the location in the request; "when" lists phases or kinds of load.
export const HEADINGS = [
  {"heading": "1. What do you want to run?", "open": true, "fields": [
    {"path": "workload.phase", "label": "Task", "kind": "radio", "options": [["inference", "serve"], ["fine_tuning", "fine-tune"], ["training", "train"]]},
    {"path": "workload.model", "label": "Model", "kind": "text", "list": "models", "wide": true, "hint": "Such as llama-3.1-70b, or a size such as 70b."},
    {"path": "workload.method", "label": "Method", "kind": "choice", "options": ["lora", "qlora", "full"], "when": ["fine_tuning"]}
  ]},
  {"heading": "2. How much load?", "open": true, "fields": [
    {"path": "load", "label": "Traffic", "kind": "choice", "options": [["users", "Users"], ["peak_requests_per_s", "Requests per second"], ["concurrent_requests", "Fixed concurrency"], ["samples_per_s", "Images, clips or texts per second"], ["offline", "Offline batch"], ["batch", "Static batch"], ["trace", "Recorded requests"]], "when": ["inference"]},
    {"path": "workload.traffic.users.count", "label": "Users", "kind": "number", "when": ["users"]},
    {"path": "workload.traffic.users.requests_per_hour_each", "label": "Requests per user and hour", "kind": "number", "when": ["users"]},
    {"path": "workload.traffic.peak_requests_per_s", "label": "Requests per second at peak", "kind": "number", "when": ["peak_requests_per_s"]},
    {"path": "workload.traffic.concurrent_requests", "label": "Concurrent requests", "kind": "number", "when": ["concurrent_requests"]},
    {"path": "workload.traffic.samples_per_s", "label": "Samples per second at peak", "kind": "number", "when": ["samples_per_s"]},
    {"path": "workload.traffic.batch", "label": "Requests in the batch", "kind": "number", "when": ["batch"]},
    {"path": "workload.traffic.volume_requests", "label": "Total requests", "kind": "number", "when": ["offline"]},
    {"path": "workload.traffic.deadline_hours", "label": "Deadline, hours", "kind": "number", "when": ["offline"]},
    {"path": "workload.traffic.input_tokens.mean", "label": "Input tokens", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "offline", "batch"]},
    {"path": "workload.traffic.output_tokens.mean", "label": "Output tokens", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "offline", "batch"]},
    {"path": "workload.traffic.trace", "label": "Recorded requests", "kind": "trace", "wide": true, "when": ["trace"], "placeholder": "at_s, input_tokens, output_tokens\n0, 800, 300\n0.4, 1200, 210", "hint": "CSV with a time in seconds or a date, input tokens and output tokens; or a JSON list. Of a long file, the page uses the busiest part."},
    {"path": "workload.training_tokens", "label": "Training tokens", "kind": "number", "when": ["training", "fine_tuning"]},
    {"path": "workload.sequence_length", "label": "Sequence length, tokens", "kind": "number", "when": ["training", "fine_tuning"]},
    {"path": "workload.deadline_days", "label": "Deadline, days", "kind": "number", "when": ["training", "fine_tuning"]}
  ]},
  {"heading": "3. What matters most?", "open": true, "fields": [
    {"path": "objective", "label": "Objective", "kind": "choice", "options": ["cost", "latency", "throughput", "energy", "carbon", "balanced"]},
    {"path": "workload.availability.redundancy", "label": "Redundancy", "kind": "choice", "options": [["", "none"], ["n+1", "n+1 (1 machine)"], ["n+2", "n+2 (2 machines)"], ["2n", "2n (half)"]], "when": ["inference"]},
    {"path": "workload.slo.ttft_ms", "label": "TTFT limit, ms", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "batch", "trace"]},
    {"path": "workload.slo.tpot_ms", "label": "TPOT limit, ms", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "batch", "trace"]},
    {"path": "workload.slo.e2e_ms", "label": "Request limit, ms", "kind": "number", "when": ["users", "peak_requests_per_s", "concurrent_requests", "samples_per_s", "batch", "trace"]},
    {"path": "constraints.environments", "label": "Where", "kind": "choice", "many": true, "options": [["", "anywhere"], ["cloud", "cloud"], ["on_prem", "own machines"]]},
    {"path": "inventory", "label": "Hardware that you own", "kind": "owned"}
  ]},
  {"heading": "Limits", "fields": [
    {"path": "maximize", "label": "Find the largest", "kind": "choice", "options": [["", "nothing: size the stated load"], ["users", "number of users"], ["requests_per_s", "requests per second"], ["tokens", "training tokens"], ["model", "model"]], "hint": "Within a limit below, or on hardware that you own."},
    {"path": "constraints.inventory", "label": "Use what you own", "kind": "choice", "options": [["", "first, then hardware for sale"], ["only", "and nothing else"], ["ignore", "not at all"]]},
    {"path": "workload.slo.percentile", "label": "Percentile of requests within the limits", "kind": "number", "hint": "50 to 99.9; default 95.", "when": ["users", "peak_requests_per_s", "concurrent_requests", "samples_per_s", "batch", "trace"]},
    {"path": "constraints.max_usd_per_hour", "label": "Maximum USD per hour", "kind": "number"},
    {"path": "constraints.max_purchase_usd", "label": "Maximum purchase, USD", "kind": "number"},
    {"path": "constraints.max_accelerators", "label": "Maximum accelerators", "kind": "number"},
    {"path": "constraints.max_power_kw", "label": "Maximum power, kW", "kind": "number"},
    {"path": "constraints.max_carbon_kg", "label": "Maximum carbon, kg CO2e", "kind": "number", "hint": "Per month of a service, or of the whole run."}
  ]},
  {"heading": "Traffic shape", "when": ["inference"], "fields": [
    {"path": "workload.traffic.input_tokens.p95", "label": "Input tokens, 95th percentile", "kind": "number"},
    {"path": "workload.traffic.output_tokens.p95", "label": "Output tokens, 95th percentile", "kind": "number"},
    {"path": "workload.traffic.average_requests_per_s", "label": "Average requests per second", "kind": "number", "hint": "Token prices are calculated at this load."},
    {"path": "workload.traffic.peak_to_average", "label": "Peak-to-average ratio of a day", "kind": "number"},
    {"path": "workload.traffic.hourly_factors", "label": "Load by hour of the day", "kind": "numbers", "wide": true, "hint": "24 comma-separated numbers; the largest is the peak."},
    {"path": "workload.traffic.burstiness", "label": "Burstiness", "kind": "number", "hint": "1 is random (Poisson) arrival; higher values are burstier."},
    {"path": "workload.traffic.cached_prefix_fraction", "label": "Share of a prompt in the prefix cache", "kind": "number", "hint": "0 to 0.99, or 60 %."},
    {"path": "workload.traffic.shared_prefix_fraction", "label": "Share of a prompt common to all requests", "kind": "number"},
    {"path": "workload.traffic.turn_gap_s", "label": "Seconds between turns of a session", "kind": "number"},
    {"path": "workload.max_context_tokens", "label": "Maximum context, tokens", "kind": "number"},
    {"path": "workload.availability.zones", "label": "Zones", "kind": "number"},
    {"path": "workload.target_utilization", "label": "Planned utilization", "kind": "number"}
  ]},
  {"heading": "Training details", "when": ["training", "fine_tuning"], "fields": [
    {"path": "workload.examples", "label": "Examples", "kind": "number", "hint": "Instead of training tokens.", "when": ["fine_tuning"]},
    {"path": "workload.epochs", "label": "Epochs", "kind": "number", "when": ["fine_tuning"]},
    {"path": "workload.lora.rank", "label": "Adapter rank", "kind": "number", "when": ["fine_tuning"]},
    {"path": "workload.global_batch_sequences", "label": "Sequences per step", "kind": "number"},
    {"path": "workload.global_batch_tokens", "label": "Tokens per step", "kind": "number"},
    {"path": "workload.precision", "label": "Precision", "kind": "text", "hint": "bf16, fp16, fp8, fp32, …"},
    {"path": "workload.optimizer", "label": "Optimizer", "kind": "text", "hint": "adamw, adamw-8bit, adafactor, muon, …"},
    {"path": "workload.dataset_gb", "label": "Dataset, GB", "kind": "number"},
    {"path": "workload.checkpoint_interval_minutes", "label": "Minutes between checkpoints", "kind": "number"},
    {"path": "workload.experiment_overhead", "label": "Extra experiments (share of the final run)", "kind": "number"}
  ]},
  {"heading": "Where and how to buy", "fields": [
    {"path": "constraints.providers", "label": "Providers to consider", "kind": "list"},
    {"path": "constraints.regions", "label": "Regions to consider", "kind": "list", "hint": "eu-*, DE, US, …"},
    {"path": "constraints.pricing_models", "label": "Pricing models", "kind": "choices", "options": [["on_demand", "on demand"], ["spot", "spot"], ["reserved_1y", "reserved, 1 year"], ["reserved_3y", "reserved, 3 years"], ["committed_1y", "committed, 1 year"], ["committed_3y", "committed, 3 years"], ["capacity_block", "capacity block"], ["owned", "owned"]]},
    {"path": "constraints.commitment", "label": "Commitment", "kind": "choice", "options": [["", "none"], ["1y", "1 year"], ["3y", "3 years"]]},
    {"path": "constraints.price_kinds", "label": "Price types to consider", "kind": "choices", "options": [["provider", "published by the provider"], ["reseller", "resellers"], ["quote", "quotes"], ["survey", "surveys of sellers"], ["list", "manufacturer list prices"], ["broker", "brokers and marketplaces"], ["launch", "launch prices"], ["press", "press estimates"], ["estimate", "estimates from parts"]]},
    {"path": "constraints.max_price_age_days", "label": "Maximum price age, days", "kind": "number"},
    {"path": "economics.horizon_months", "label": "Months of use", "kind": "number"},
    {"path": "economics.electricity_usd_per_kwh", "label": "Electricity, USD per kWh", "kind": "number"},
    {"path": "economics.country", "label": "Country of your own machines", "kind": "text", "hint": "DE, US, …: its grid and electricity price."},
    {"path": "economics.pue", "label": "PUE", "kind": "number"},
    {"path": "economics.discounts", "label": "Your discounts", "kind": "shares", "wide": true, "hint": "By accelerator: h100 sxm 20%, b200 sxm 10%."},
    {"path": "label", "label": "Label", "kind": "text"},
    {"path": "reference", "label": "Your reference", "kind": "text"},
    {"path": "cost_centre", "label": "Cost center", "kind": "text"}
  ]},
  {"heading": "Hardware and software", "fields": [
    {"path": "constraints.accelerators", "label": "Accelerators to consider", "kind": "types"},
    {"path": "constraints.exclude_accelerators", "label": "Accelerators to exclude", "kind": "types"},
    {"path": "constraints.vendors", "label": "Vendors to consider", "kind": "list", "hint": "nvidia, amd, intel, apple, …"},
    {"path": "constraints.segments", "label": "Market segments", "kind": "choices", "options": ["datacenter", "workstation", "consumer", "edge", "cpu"]},
    {"path": "constraints.engines", "label": "Engines or frameworks to consider", "kind": "list", "hint": "vllm, sglang, megatron, …"},
    {"path": "constraints.weight_formats", "label": "Weight formats", "kind": "list", "hint": "bf16, fp8, int4-awq, …"},
    {"path": "constraints.kv_formats", "label": "KV cache formats", "kind": "list", "when": ["inference"]}
  ]},
  {"heading": "Your own model", "fields": [
    {"path": "workload.model.huggingface_config", "label": "Its config.json, instead of a name", "kind": "json", "wide": true},
    {"path": "workload.sample.width", "label": "Sample width, pixels", "kind": "number"},
    {"path": "workload.sample.height", "label": "Sample height, pixels", "kind": "number"},
    {"path": "workload.sample.audio_s", "label": "Audio length, seconds", "kind": "number"},
    {"path": "workload.sample.steps", "label": "Denoising steps", "kind": "number"}
  ]},
  {"heading": "Confidence and output", "fields": [
    {"path": "constraints.confidence", "label": "Confidence", "kind": "number", "hint": "0.5 to 0.95, or 90 %; default 0.8."},
    {"path": "limit", "label": "Ranked options", "kind": "number"},
    {"path": "as_of", "label": "Prices as of", "kind": "text", "hint": "A date such as 2026-11-20; default today."},
    {"path": "assumptions", "label": "Other assumptions", "kind": "json", "wide": true, "hint": "By name; the section Assumptions of an answer changes them in place."},
    {"path": "more", "label": "Additional request fields", "kind": "json", "wide": true, "hint": "Fields of the API request without a form field: classes, companions."}
  ]}
];
