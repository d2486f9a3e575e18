"""Steps whose limit is known beforehand, each as small as it can be and still have it.

They are built like workloads, and measured by the same passes. Sizes are for a data-centre GPU.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.contracts import Bottleneck
from trials.truths import devices, hosts, inputs
from trials.truths.parts import Graphed, Truth

TRUTHS: Mapping[str, Truth] = {
    "sleeping": Truth(inputs.sleeping, Bottleneck.INPUT),
    "one-process": Truth(inputs.one_process, Bottleneck.INPUT),
    "crowded": Truth(inputs.crowded, Bottleneck.INPUT),
    "from-disk": Truth(inputs.from_disk, Bottleneck.INPUT),
    "pageable": Truth(inputs.pageable, Bottleneck.INPUT, by_copy=True),
    "tiny": Truth(hosts.tiny, Bottleneck.OVERHEAD),
    "reading": Truth(hosts.reading, Bottleneck.OVERHEAD, says="48 times at trials/truths/hosts.py"),
    "slow-optimizer": Truth(hosts.slow_optimizer, Bottleneck.OVERHEAD),
    "thrashing": Truth(hosts.thrashing, Bottleneck.OVERHEAD, says="the allocator asks the driver"),
    "restless": Truth(hosts.restless, Bottleneck.OVERHEAD, says="compiled anew"),
    "graphed": Truth(hosts.tiny, Bottleneck.LATENCY, trainer=Graphed),
    "narrow": Truth(devices.narrow, Bottleneck.LATENCY),
    "products": Truth(devices.products, Bottleneck.COMPUTE),
    "attention": Truth(devices.attention, Bottleneck.COMPUTE),
    "norms": Truth(devices.norms, Bottleneck.MEMORY),
    "pointwise": Truth(devices.pointwise, Bottleneck.MEMORY),
}
