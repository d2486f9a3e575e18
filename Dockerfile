# Two images from one file:
#   docker build --target service -t throughline-service .     API and dashboard; no torch
#   docker build --target worker  -t throughline-worker .      torch with CUDA, from PyPI
#   docker build --target worker  -t throughline-worker-cpu \
#     --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu .
#
# The base needs python3 (3.11 or newer) with venv and its C headers; Debian's own will do.
ARG PYTHON_IMAGE=docker.io/library/python:3.12-slim-bookworm

# ---- everything that is built here stays here; only /opt/throughline is copied out ----
FROM ${PYTHON_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python3 -m venv /opt/throughline
COPY pyproject.toml constraints.txt requirements.lock containers/requirements.py ./

# A pip configuration and a CA bundle of your own may be lent to the build as secrets
# (--secret id=pip_conf,src=... --secret id=ca_bundle,src=...); they stay in no layer.
FROM builder AS wheel
COPY README.md LICENSE ./
COPY service service
COPY worker worker
COPY benchmarks benchmarks
COPY cli cli
COPY migrations migrations
COPY throughline throughline
# One date for every file makes the wheel the same for the same sources; zip knows none before 1980.
ENV SOURCE_DATE_EPOCH=315532800
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle \
    python3 requirements.py --locked build > locked.txt \
    && /opt/throughline/bin/pip install --require-hashes --no-deps --requirement locked.txt \
    && /opt/throughline/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels .

# Dependencies come before the code, so that a change of code downloads nothing again. First what
# is locked with its hashes; then what is not, at its pinned version: torch and what it brings.
FROM builder AS service-packages
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle \
    python3 requirements.py --locked service > locked.txt \
    && python3 requirements.py service > requirements.txt \
    && /opt/throughline/bin/pip install --require-hashes --no-deps --requirement locked.txt \
    && /opt/throughline/bin/pip install --constraint constraints.txt --requirement requirements.txt
COPY --from=wheel /wheels /wheels
RUN /opt/throughline/bin/pip install --no-index --no-deps /wheels/*.whl

FROM builder AS worker-packages
# Empty: torch as pip finds it, which on PyPI is the CUDA build. An index with a CPU build of the
# same version wins over PyPI, because pip sorts 2.13.0+cpu after 2.13.0.
ARG TORCH_INDEX=""
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle \
    python3 requirements.py --locked worker > locked.txt \
    && python3 requirements.py worker > requirements.txt \
    && /opt/throughline/bin/pip install --require-hashes --no-deps --requirement locked.txt \
    && /opt/throughline/bin/pip install --constraint constraints.txt --requirement requirements.txt \
       ${TORCH_INDEX:+--extra-index-url "${TORCH_INDEX}"}
COPY --from=wheel /wheels /wheels
RUN /opt/throughline/bin/pip install --no-index --no-deps /wheels/*.whl

# ---- what both images share ----
FROM ${PYTHON_IMAGE} AS runtime
# A fixed number, so that volumes keep their owner over upgrades and Kubernetes can see "non-root".
RUN groupadd --gid 10001 throughline \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/throughline \
       --shell /usr/sbin/nologin throughline \
    && install -d -o throughline -g throughline -m 0750 /var/lib/throughline /var/cache/throughline
ENV PATH=/opt/throughline/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/var/lib/throughline \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    THROUGHLINE_STATE_DIR=/var/lib/throughline \
    THROUGHLINE_CACHE_DIR=/var/cache/throughline
WORKDIR /var/lib/throughline
# All that is written outside /tmp goes to these two: the root file system may be read-only.
VOLUME ["/var/lib/throughline", "/var/cache/throughline"]
ENTRYPOINT ["throughline"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.vendor="Throughline"

FROM runtime AS service
LABEL org.opencontainers.image.title="throughline-service" \
      org.opencontainers.image.description="Throughline's API and dashboard: queue, history, comparisons. Holds no torch."
COPY --from=service-packages /opt/throughline /opt/throughline
USER 10001:10001
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/api/v1/health', timeout=4)"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]

FROM runtime AS worker
LABEL org.opencontainers.image.title="throughline-worker" \
      org.opencontainers.image.description="Throughline's worker: leases jobs and measures PyTorch training in child processes."
# torch.compile (Inductor, Triton) compiles C and C++ on the spot: without a compiler every case
# with compile=on ends as compile_error.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc g++ libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY --from=worker-packages /opt/throughline /opt/throughline
COPY containers/worker_alive.py /usr/local/lib/throughline/worker_alive.py
# What the NVIDIA container runtime lends: CUDA to compute, NVML to watch clocks and power.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python3", "/usr/local/lib/throughline/worker_alive.py"]
CMD ["worker"]
