# The image of prs: the program under its three names, and the Python that entry scripts run in.
#
#   docker build -f ops/prs.Dockerfile -t prs .                       compiles the programs; what they say of themselves:
#                                                                     --build-arg PRS_COMMIT=$(git rev-parse --short=12 HEAD)
#   docker build -f ops/prs.Dockerfile -t prs --target prebuilt .     takes them from target/release of this host,
#                                                                     which must not be newer than Debian 12
#
# The stages stand in this order for docker's older builder, which builds all that stand before the wanted one.

ARG DEBIAN_IMAGE=debian:bookworm-slim
ARG RUST_IMAGE=rust:1.95-bookworm

FROM ${DEBIAN_IMAGE} AS system
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

FROM system AS packages
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv
RUN python3 -m venv /opt/python
COPY ops/image-requirements.txt /tmp/
ARG EXTRA_PYTHON_PACKAGES=""
# The system's certificates, so that a base image may bring those of a company's own.
RUN PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    /opt/python/bin/pip install --no-cache-dir --no-compile -r /tmp/image-requirements.txt ${EXTRA_PYTHON_PACKAGES}
# Half of what they take is their own tests and headers.
RUN cd /opt/python/lib/python3*/site-packages \
    && rm -rf pip pip-*.dist-info setuptools setuptools-*.dist-info pkg_resources _distutils_hack \
        distutils-precedence.pth pandas/tests pyarrow/tests pyarrow/include numpy/*/tests

# All but the programs. A job file without `environment` runs in the virtual environment.
FROM system AS base
COPY --from=packages /opt/python /opt/python
ENV VIRTUAL_ENV=/opt/python PATH=/opt/python/bin:$PATH PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin prs
USER prs
WORKDIR /home/prs
STOPSIGNAL SIGTERM
CMD ["prs", "worker"]

FROM base AS prebuilt
COPY target/release/prs target/release/prs-worker target/release/prs-producer target/release/libprs_process.so \
    /usr/local/bin/

FROM ${RUST_IMAGE} AS build
WORKDIR /src
# Not `COPY . .`: what was built on this host is a part of the context, for `prebuilt`, and changes with each build. Of
# the tests cargo only wants to know that they are there.
COPY Cargo.toml Cargo.lock ./
COPY common common
COPY tabular tabular
COPY python python
COPY portal portal
COPY orchestrator orchestrator
COPY worker worker
COPY jobs jobs
COPY server server
COPY producer producer
COPY tests/Cargo.toml tests/
COPY tests/src tests/src
ARG PRS_COMMIT=""
RUN PRS_COMMIT="$PRS_COMMIT" cargo build --release --locked -p prs-producer -p prs-python

FROM base AS prs
COPY --from=build /src/target/release/prs /src/target/release/prs-worker /src/target/release/prs-producer \
    /src/target/release/libprs_process.so /usr/local/bin/
