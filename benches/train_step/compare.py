"""Compares our training step with PyTorch's, in one run with the same number of threads.

    python compare.py PATH-TO-OUR-BENCH THREADS STEPS

Prints `name value unit` lines: medians over rounds in which all implementations take turns, then ratios. PyTorch runs the
released model, with an EmbeddingBag in place of its dense first layer, in three ways: eager with the default AdamW, eager
with the fused AdamW, and with a compiled loss. `gemms` is the time of the three matrix products of the output layer alone.
"""

import resource
import statistics
import subprocess
import sys
import time

import torch

ROWS, FEATURES, NONZEROS, LABELS, PER_ROW, HIDDEN, BATCHES, ROUNDS = 128, 203_882, 71, 13_330, 5, 128, 16, 5
ours, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(threads)
torch.manual_seed(0)


class Released(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(FEATURES, HIDDEN, mode="sum")
        self.bag_bias = torch.nn.Parameter(torch.zeros(HIDDEN))
        self.out = torch.nn.Linear(HIDDEN, LABELS)
        torch.nn.init.uniform_(self.bag.weight, -0.0022, 0.0022)
        torch.nn.init.constant_(self.out.bias, 0.5)
        self.alpha = torch.nn.Parameter(torch.randn(LABELS))
        self.beta = torch.nn.Parameter(torch.randn(LABELS))
        self.bias = torch.nn.Parameter(torch.zeros(LABELS))
        self.lam = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, indices, offsets, values):
        return self.out(torch.relu(self.bag(indices, offsets, per_sample_weights=values) + self.bag_bias))


POS_WEIGHT = torch.full((LABELS,), 10.0)


def loss(z, y, alpha, beta, bias, lam):
    count = y.sum(1, keepdim=True) + 1e-8
    knn = ((y @ y.T) / count) @ y
    theta = torch.sigmoid(lam * alpha * (y / count) + (1 - lam) * beta * knn + bias)
    z = (z - z.mean(1, keepdim=True)) / (z.std(1, keepdim=True) + 1e-8)
    bce = torch.nn.functional.binary_cross_entropy_with_logits(z - theta, y, pos_weight=POS_WEIGHT)
    margin = torch.where(y > 0, (theta - z + 0.1).clamp_min(0), (z - theta + 0.1).clamp_min(0)).mean()
    return bce + 0.1 * margin


def batches():
    made = []
    for _ in range(BATCHES):
        indices = torch.randint(0, FEATURES, (ROWS * NONZEROS,))
        labels = (torch.pow(float(LABELS), torch.rand(ROWS, PER_ROW)) - 1).long()
        made.append((indices, torch.arange(0, ROWS * NONZEROS, NONZEROS), torch.full((ROWS * NONZEROS,), 0.12), labels))
    return made


def measure(name, step, count):
    for i in range(2):
        step(i)
    times, cpu = [], cpu_seconds()
    for i in range(count):
        start = time.perf_counter()
        step(i)
        times.append((time.perf_counter() - start) * 1e3)
    found.setdefault(name, []).append(statistics.median(times))
    found.setdefault(f"{name}_cpu", []).append((cpu_seconds() - cpu) / count * 1e3)


def measure_ours(count):
    lines = subprocess.run([ours, str(threads), str(count)], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        name, value, unit = line.split()
        found.setdefault(name, []).append(float(value))
        units[name] = unit


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def training(fused, compute_loss):
    model, data = Released(), batches()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused)

    def step(i):
        indices, offsets, values, labels = data[i % BATCHES]
        y = torch.zeros(ROWS, LABELS).scatter_(1, labels, 1.0)
        optimiser.zero_grad()
        z = model(indices, offsets, values)
        compute_loss(z, y, model.alpha, model.beta, model.bias, model.lam).backward()
        optimiser.step()

    return step


def gemms():
    h, w, g = torch.randn(ROWS, HIDDEN), torch.randn(LABELS, HIDDEN), torch.randn(ROWS, LABELS)
    z, dw, dh = torch.empty(ROWS, LABELS), torch.empty(LABELS, HIDDEN), torch.empty(ROWS, HIDDEN)

    def step(_):
        torch.mm(h, w.T, out=z)
        torch.mm(g.T, h, out=dw)
        torch.mm(g, w, out=dh)

    return step


found, units = {}, {}
eager, fused, compiled = training(None, loss), training(True, loss), training(True, torch.compile(loss))
multiply = torch.no_grad()(gemms())
# Alternating rounds spread other load of the machine evenly; each value is the median over the rounds.
per_round = max(5, steps // ROUNDS)
for _ in range(ROUNDS):
    measure("gemms", multiply, per_round)
    measure("eager_default_adamw", eager, max(5, per_round // 3))
    measure("eager_fused_adamw", fused, max(5, per_round // 2))
    measure("compiled_fused_adamw", compiled, max(5, per_round // 2))
    measure("gemms", multiply, per_round)
    measure_ours(per_round)

figures = {name: statistics.median(values) for name, values in found.items()}
for name, value in figures.items():
    print(f"{name} {value:.2f} {units.get(name, 'ms')}")
for kind in ("lazy", "dense"):
    for rival in ("eager_default_adamw", "eager_fused_adamw", "compiled_fused_adamw"):
        print(f"{rival}_over_ours_{kind} {figures[rival] / figures[f'ours_released_{kind}']:.2f} times")
    print(f"ours_{kind}_over_gemms {figures[f'ours_released_{kind}'] / figures['gemms']:.2f} times")
