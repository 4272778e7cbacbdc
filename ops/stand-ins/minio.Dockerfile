# MinIO and its client as built by `go install`, laid out as the official image is.
ARG DEBIAN_IMAGE=debian:trixie-slim
FROM ${DEBIAN_IMAGE}
COPY minio mc /usr/bin/
VOLUME /data
EXPOSE 9000 9001
ENTRYPOINT ["minio"]
CMD ["server", "/data"]
