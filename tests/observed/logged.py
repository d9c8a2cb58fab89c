"""Logs as trainers write them, of runs whose steps are known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

BEGAN = datetime(2026, 8, 21, 10, 0, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """A moment of the run."""
    return f"{BEGAN + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


# Steps of 2 s, of which the first took 30; a checkpoint of 12.5 s every ten steps; 8 accelerators, 2^20 tokens a step.
TORCHTITAN = "\n".join(
    [
        f"[rank0]:[titan] {at(0)},001 - root - INFO - Trainer is initialized with 131072 tokens per DP rank, "
        "1048576 tokens per train step, gradient accumulation steps 1, total steps 40 (warmup 10)",
        f"[rank0]:[titan] {at(1)},001 - root - INFO - Training starts at step 1",
        f"[rank0]:[titan] {at(30)},500 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.25  \x1b[38mgrad_norm:  1.1  "
        "memory: 27.34GiB(34.20%)  tps: 4,369  tflops: 21.73  mfu: 2.20%\x1b[39m",
        *(
            line
            for step in range(10, 41, 10)
            for line in (
                f"[rank0]:[titan] {at(30 + 32.5 * step / 10)},123 - root - INFO - step: {step:2}  loss:  8.9  "
                "grad_norm:  0.9  memory: 66.00GiB(82.50%)  tps: 65,536  tflops: 407.35  mfu: 41.20%",
                f"[rank0]:[titan] {at(30 + 32.5 * step / 10)},200 - root - INFO - Saving the checkpoint.",
                f"[rank0]:[titan] {at(42.5 + 32.5 * step / 10)},700 - root - INFO - Finished saving the checkpoint in "
                "12.50 seconds.",
            )
        ),
        f"[rank0]:[titan] {at(200)},001 - root - WARNING - 8 CUDA memory allocation retries.",
        f"[rank0]:[titan] {at(201)},001 - root - INFO - validate step: 40  loss:  8.1  memory: 10.00GiB(12%)  tps: 9",
    ]
)
MEGATRON = "\n".join(
    line
    for step in range(1, 9)
    for line in (
        f" [{at(2 * step)}.123456] iteration {step:8d}/     500 | consumed samples: {step * 512:12d} | elapsed time "
        f"per iteration (ms): {30000.0 if step == 1 else 2000.0} | throughput per GPU (TFLOP/s/GPU): 410.1 | energy "
        "per GPU (J/iter/GPU): 1300.0 | power per GPU (W/GPU): 650.0 | global batch size:   512 | "
        "lm loss: 8.1E+00 | number of skipped iterations:   0 |",
        "(min, max) time across ranks (ms):",
        "    batch-generator ................................: (1.10, 150.00)",
        "    all-grads-sync .................................: (110.00, 300.00)",
        "    optimizer ......................................: (90.00, 100.00)",
        *(
            [
                f"[{at(2 * step)}.500000] saving checkpoint at iteration {step:7d} to /out in torch_dist format",
                f"  [{at(2 * step + 24)}.500000] successfully saved checkpoint from iteration {step:7d} to /out",
                "    save-checkpoint ................................: (24895.07, 24900.00)",
            ]
            if step % 4 == 0
            else []
        ),
    )
)
NEMO = "\n".join(
    f"0: Training epoch 0, iteration {step}/99 | lr: 6.897e-06 | global_batch_size: 512 | global_step: {step} | "
    f"max_memory_reserved: 127785762816 | reduced_train_loss: 11.96 | train_step_timing in s: "
    f"{40 if step < 2 else 2.0} | TFLOPS_per_GPU: 1.249e+03 | consumed_samples: 5888"
    for step in range(12)
)
HUGGINGFACE = "".join(
    [
        "Map: 100%|██████████| 100/100 [00:02<00:00, 45.73it/s]\n",
        *(
            f"\r {step}%|████      | {step}/100 [0{step * 2 // 60}:{step * 2 % 60:02d}<05:00,  2.0{step % 2}s/it]"
            for step in range(1, 61)
        ),
        "\n{'loss': '2.176', 'grad_norm': '0.42', 'learning_rate': '4.97e-05', 'epoch': '0.77'}\n",
        "\rVal: 100%|██████████| 5/5 [00:00<00:00, 13.27it/s]\n",
        "{'eval_loss': '0.55', 'eval_runtime': '30.0', 'eval_samples_per_second': '36.21', 'epoch': '0.8'}\n",
        "Saving model checkpoint to out/checkpoint-60\n",
        "{'train_runtime': '300', 'train_samples_per_second': '4.5',\n 'train_steps_per_second': '0.333'}\n",
    ]
)
DEEPSPEED = "\n".join(
    line
    for step in range(10, 61, 10)
    for line in (
        f"[{at(2 * step)},714] [INFO] [timer.py:260:stop] epoch=0/micro_step={step * 4}/global_step={step}, "
        "RunningAvgSamplesPerSec=250.5, CurrSamplesPerSec=256.0, MemAllocated=4.32GB, MaxMemAllocated=38.5GB",
        f"[{at(2 * step)},715] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: 553.15 | bwd: 1250.0 | "
        "bwd_inner: 1000.0 | bwd_allreduce: 250.0 | step: 100.0",
        "[utils.py:782:see_memory_usage] MA 15.02 GB         Max_MA 38.5 GB         CA 39.2 GB         Max_CA 40 GB",
    )
)
LIGHTNING = "".join(
    [
        "Validation DataLoader 0: 100%|██████████| 133/133 [00:07<00:00, 17.44it/s]\n",
        *(
            f"\rEpoch 0:  {step}%|▍         | {step}/800 [00:{step:02d}<03:23,  0.50it/s, v_num=0, train_loss=1.82]"
            for step in range(1, 30)
        ),
    ]
)
MAXTEXT = "\n".join(
    f"completed step: {step}, seconds: {(44.9, 0.3, 2.0)[min(step, 2)]:.3f}, TFLOP/s/device: 135.158, "
    f"Tokens/s/device: {131072 / 2.0:.3f}, total_weights: 196608, loss: 11.689"
    for step in range(12)
)
OLMO_CORE = "\n".join(
    f"{at(2 * step)}.4Z     [step={step}/500,epoch=1]\n"
    f"{at(2 * step)}.4Z     optim/total grad norm=0.1\n"
    f"{at(2 * step)}.4Z     system/GPU reserved mem (GiB)=80.79\n"
    f"{at(2 * step)}.4Z     throughput/device/MFU=41.2\n"
    f"{at(2 * step)}.4Z     throughput/device/TPS={f'{65536 if step else 4369:,}'}\n"
    f"{at(2 * step)}.4Z     throughput/device/TPS (actual avg)=30,000"
    for step in range(12)
)
VERL = "\n".join(
    f"(TaskRunner pid=1) step:{step} - actor/pg_loss:-0.01 - perf/mfu/actor:0.412 - perf/max_memory_allocated_gb:80.79 "
    f"- timing_s/gen:20.5 - timing_s/update_actor:{2.0 if step else 30.0} - timing_s/step:{25.1 if step else 60} - "
    "perf/total_num_tokens:1048576 - perf/throughput:5221.0"
    for step in range(12)
)
TORCHTUNE = "\n".join(
    f"Step {step} | loss:0.9 lr:1e-04 tokens_per_second_per_gpu:{65536.0 if step > 1 else 4369.0} "
    "peak_memory_active:61.2 peak_memory_alloc:60.1 peak_memory_reserved:66.0"
    for step in range(1, 13)
)
AUTOMODEL = "\n".join(
    f"{at(2 * step)} | INFO | root | step {step} | epoch 0 | loss 1.2345 | grad_norm 1.0000 | lr 1.00e-05 | "
    f"mem 66.00 GiB | tps 524288.00({65536.0 if step > 1 else 4369.0:.2f}/gpu) | num_label_tokens 1000"
    for step in range(1, 13)
)
SWIFT = "\n".join(
    f"{{'loss': 0.37, 'grad_norm': 0.6, 'learning_rate': 1e-4, 'token_acc': 0.9, 'epoch': 0.02, "
    f"'global_step/max_steps': '{step}/100', 'elapsed_time': '46s', 'memory(GiB)': 66.0, "
    f"'train_speed(iter/s)': {0.5 if step > 1 else 0.03}}}"
    for step in range(1, 13)
)
COMPOSER = "\n".join(
    f"[batch={step}/100]:\n\t Train throughput/device/tokens_per_sec: {65536.0 if step > 1 else 4369.0}\n"
    "\t Train throughput/device/mfu: 0.412\n\t Train loss/train/total: 1.2"
    for step in range(1, 13)
)
MLX_LM = "\n".join(
    f"Iter {step}: Train loss 1.2, Learning Rate 1.000e-05, It/sec {0.5 if step > 1 else 0.03}, "
    "Tokens/sec 65536.0, Trained Tokens 4000, Peak mem 22.1 GB"
    for step in range(1, 13)
)

EVERY = {
    "torchtitan": TORCHTITAN,
    "megatron": MEGATRON,
    "nemo": NEMO,
    "huggingface": HUGGINGFACE,
    "deepspeed": DEEPSPEED,
    "lightning": LIGHTNING,
    "maxtext": MAXTEXT,
    "olmo-core": OLMO_CORE,
    "verl": VERL,
    "torchtune": TORCHTUNE,
    "automodel": AUTOMODEL,
    "composer": COMPOSER,
    "mlx-lm": MLX_LM,
}
