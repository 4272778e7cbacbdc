# The S3 server of the tests in place of MinIO. It listens on the loopback address only, hence socat.
ARG DEBIAN_IMAGE=debian:trixie-slim
FROM ${DEBIAN_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends socat \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir /data
COPY s3-server /usr/local/bin/
VOLUME /data
EXPOSE 9000
ENTRYPOINT ["sh", "-c", "socat TCP-LISTEN:9000,fork,reuseaddr TCP:127.0.0.1:9100 & exec s3-server --folder /data --port 9100 --access-key prs --secret-key \"$PRS_STORAGE_PASSWORD\" --bucket prs"]
