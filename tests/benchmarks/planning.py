"""Measure the fleet planner and print a table: ``python tests/benchmarks/planning.py``.

The pools are seeded: every run plans the same ones. ``--sizes 10,100`` leaves out the
large ones, ``--pools 2`` makes it shorter.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import Demand, FleetPlan, plan_replicas, plan_stages
from ml_toolkit_core.planning.certificate import faults

GB = 10**9
VECTORS = Path(__file__).parents[1] / "data/planning/optimal_replicas_vectors.json"

#: Layers and bytes of the models; sources in ``tests/data/planning/models.json``.
MODELS = {
    "Llama-3.1-8B": (32, 16_060_522_496),
    "Llama-3.1-70B": (80, 141_107_412_992),
    "Llama-3.1-405B": (126, 811_706_884_096),
    "DeepSeek-V3": (61, 688_586_727_753),
    "Qwen3-235B": (94, 470_187_269_120),
    "gpt-oss-120b": (36, 65_248_815_744),
}
#: Bytes of a layer and of the embedding (as much as the head) in bf16.
STAGES = {
    "Llama-3.1-8B": (32, 436_224_000, 1_050_673_152),
    "Llama-3.1-70B": (80, 1_711_308_800, 2_101_346_304),
    "Llama-3.1-405B": (126, 6_375_342_080, 4_202_692_608),
}
#: KV bytes of a layer for four sequences of 8192 tokens, 8 KV heads of 128, bf16.
KV_BYTES = 4 * 8192 * 2 * 8 * 128 * 2
CONSUMER = (4, 6, 8, 10, 11, 12, 16, 20, 24)


def datacentre(random: Random, count: int) -> list[int]:
    """Return cards of a few large sizes."""
    sizes = random.sample((24, 40, 48, 80, 141, 192), random.randint(2, 6))
    return [random.choice(sizes) * GB for _ in range(count)]


def consumer(random: Random, count: int) -> list[int]:
    """Return cards of a few small sizes."""
    sizes = random.sample(CONSUMER, random.randint(3, 9))
    return [random.choice(sizes) * GB for _ in range(count)]


def distinct(random: Random, count: int) -> list[int]:
    """Return cards that all differ, 4 to 24 GB."""
    return [random.randint(4 * GB, 24 * GB) for _ in range(count)]


def wide(random: Random, count: int) -> list[int]:
    """Return cards that all differ, 4 to 192 GB, evenly on a logarithmic scale."""
    low, high = math.log(4 * GB), math.log(192 * GB)
    return [int(math.exp(random.uniform(low, high))) for _ in range(count)]


def free_share(random: Random, count: int) -> list[int]:
    """Return small cards of which a random half or more is free."""
    return [int(vram * random.uniform(0.5, 1)) for vram in consumer(random, count)]


FAMILIES: dict[str, Callable[[Random, int], list[int]]] = {
    "dc": datacentre,
    "consumer": consumer,
    "bytes": distinct,
    "bytes-wide": wide,
    "free-vram": free_share,
}


@attrs.frozen(kw_only=True)
class Measured:
    """One pool: what the seed and we answer, and how long ours took."""

    seed: int
    ours: int
    bound: int
    certified: bool
    seconds: float
    wrong: bool


def bytes_demand(random: Random, family: str, count: int, *, tight: bool) -> Demand:
    """Return a question in bytes mode; ``tight`` allows 2 to 8 workers a replica."""
    layers, size = MODELS[random.choice(sorted(MODELS))]
    return Demand(
        n_layers=random.randint(2, 8) if tight else layers,
        model_bytes=size,
        worker_vram=tuple(FAMILIES[family](random, count)),
    )


def stages_demand(random: Random, family: str, count: int) -> Demand:
    """Return a question in stages mode, with a reserve of 1 GiB and a KV cache."""
    layers, layer, ends = STAGES[random.choice(sorted(STAGES))]
    return Demand(
        n_layers=layers,
        layer_bytes=layer,
        embed_bytes=ends,
        head_bytes=ends,
        reserve_bytes=1 << 30,
        kv_bytes_per_layer=KV_BYTES,
        worker_vram=tuple(FAMILIES[family](random, count)),
    )


def planned(demand: Demand, **more: Any) -> FleetPlan | None:
    """Return the plan, or None where nothing fits."""
    facts = attrs.asdict(demand)
    try:
        if demand.model_bytes is not None:
            return plan_replicas(
                demand.n_layers, demand.model_bytes, demand.worker_vram, "max", **more
            )
        return plan_stages(**{k: v for k, v in facts.items() if k != "model_bytes"})
    except RequestError:
        return None


def measured(demand: Demand) -> Measured:
    """Plan and check one pool; the seed gets the same bytes where it can."""
    start = time.perf_counter()
    plan = planned(demand)
    seconds = time.perf_counter() - start
    flat = demand.model_bytes is not None
    seed = planned(demand, semantics="seed") if flat else None
    return Measured(
        seed=len(seed.replicas) if seed else 0,
        ours=len(plan.replicas) if plan else 0,
        bound=plan.bound if plan else 0,
        certified=plan.certified if plan else True,
        seconds=seconds,
        wrong=bool(plan and faults(plan, demand)),
    )


def row(label: str, results: list[Measured]) -> str:
    """Return a line of the table."""
    seed, ours, bound = (
        sum(getattr(result, name) for result in results)
        for name in ("seed", "ours", "bound")
    )
    times = [1000 * result.seconds for result in results]
    gap = max(result.bound - result.ours for result in results)
    wrong = sum(result.wrong for result in results)
    return (
        f"{label:34} {len(results):5} {seed or '-':>7} {ours:7} {bound:7}"
        f" {sum(r.certified for r in results):5} {gap:5} {wrong:5}"
        f" {statistics.median(times):9.1f} {max(times):9.1f}"
    )


def demands(size: int, pools: int) -> Iterator[tuple[str, list[Demand]]]:
    """Yield the questions of one size, a family at a time."""
    for mode in ("bytes", "bytes, 2-8", "stages"):
        for family in FAMILIES:
            randoms = [Random(f"{mode} {family} {size} {i}") for i in range(pools)]  # noqa: S311 - seeded on purpose
            if mode == "stages":
                questions = [stages_demand(random, family, size) for random in randoms]
            else:
                tight = mode != "bytes"
                questions = [
                    bytes_demand(random, family, size, tight=tight)
                    for random in randoms
                ]
            yield f"{mode:11} {family:11} n={size}", questions


def vectors() -> Iterator[str]:
    """Yield a line for each mode of the vectors with known optima."""
    known = json.loads(VECTORS.read_text(encoding="utf-8"))["vectors"]
    names = {field.name for field in attrs.fields(Demand)}
    for mode in ("bytes", "stages"):
        ours = [vector for vector in known if vector["mode"] == mode]
        results = []
        for vector in ours:
            facts = {name: vector[name] for name in names & set(vector)}
            facts["worker_vram"] = tuple(facts["worker_vram"])
            results.append(measured(Demand(**facts)))
        reached = sum(
            result.ours == vector["max_replicas"]
            for result, vector in zip(results, ours, strict=True)
        )
        yield row(f"vectors {mode}, {reached}/{len(ours)} optimal", results)


def import_ms() -> float:
    """Return the time of importing the package in a fresh interpreter, without ours."""
    code = (
        "import time; start = time.perf_counter(); import ml_toolkit_core.planning;"
        "print(time.perf_counter() - start)"
    )
    times = [
        float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)
    ]
    return 1000 * statistics.median(times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,16,100,1000,10000")
    parser.add_argument("--pools", type=int, help="pools of each family and size")
    options = parser.parse_args()
    defaults = {10: 40, 16: 40, 100: 12, 1000: 4, 10000: 2}
    print(f"import of the package: {import_ms():.0f} ms")
    planned(Demand(n_layers=28, model_bytes=13, worker_vram=(6,) * 8))  # loads highspy
    print(
        f"{'pools':34} {'count':>5} {'seed':>7} {'ours':>7} {'bound':>7} {'cert.':>5}"
        f" {'gap':>5} {'wrong':>5} {'median ms':>9} {'worst ms':>9}"
    )
    for line in vectors():
        print(line, flush=True)
    for size in map(int, options.sizes.split(",")):
        for label, questions in demands(size, options.pools or defaults.get(size, 4)):
            results = [measured(question) for question in questions]
            print(row(label, results), flush=True)


if __name__ == "__main__":
    main()
