# RabbitMQ with management from Debian's package, laid out as the official image is.
ARG DEBIAN_IMAGE=debian:trixie-slim
FROM ${DEBIAN_IMAGE}
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends rabbitmq-server \
    && rm -rf /var/lib/apt/lists/* /var/lib/rabbitmq/.erlang.cookie /var/lib/rabbitmq/mnesia \
    && mkdir -p /etc/rabbitmq/conf.d \
    && echo '[rabbitmq_management].' >/etc/rabbitmq/enabled_plugins \
    && chown -R rabbitmq:rabbitmq /etc/rabbitmq /var/lib/rabbitmq
# Debian's own wrapper of the scripts, which is first otherwise, keeps signals and the log from where they should go.
ENV PATH=/usr/lib/rabbitmq/bin:$PATH
ENV HOME=/var/lib/rabbitmq LANG=C.UTF-8
VOLUME /var/lib/rabbitmq
EXPOSE 5672 15672
CMD ["rabbitmq-server"]
