# syntax=docker/dockerfile:1
# Python 3.13.15 on Debian 13; CONTRIBUTING.md says how a release moves the digests.
ARG BUILD_IMAGE=python:3.13-trixie@sha256:82c46c08c991d3d3ff10476ac5e386c2c28f27bbd3985a02c5e39fe99ab272eb
ARG RUN_IMAGE=python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285
# This stage has a C compiler, for the simulation; the image itself has none.
FROM ${BUILD_IMAGE} AS build
WORKDIR /build
RUN python -m venv /opt/build && python -m venv /opt/headroom
COPY requirements/service.lock ./requirements.lock
RUN /opt/headroom/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.lock
COPY requirements/build.lock ./build.lock
RUN /opt/build/bin/python -m pip install --no-cache-dir --disable-pip-version-check --require-hashes -r build.lock
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY app ./app
COPY headroom_client ./headroom_client
COPY migrations ./migrations
COPY docs ./docs
RUN /opt/build/bin/python -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/headroom/bin/python -m pip install --no-cache-dir --disable-pip-version-check --no-deps dist/*.whl \
    && cd / && /opt/headroom/bin/python -m app.compiled /opt/headroom/cache

FROM ${RUN_IMAGE}
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PATH=/opt/headroom/bin:$PATH \
    HEADROOM_HOST=0.0.0.0 \
    HEADROOM_DATABASE_URL=sqlite:////data/headroom.sqlite3 \
    HEADROOM_CACHE_DIR=/opt/headroom/cache \
    PORT=8000
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin headroom \
    && install -d -o headroom -g headroom /data
COPY --from=build /opt/headroom /opt/headroom
WORKDIR /data
USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/readyz', timeout=2)"]
CMD ["sh", "-c", "headroom prepare && exec headroom serve"]
